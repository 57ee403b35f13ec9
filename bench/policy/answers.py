"""Answers: two hundred questions at concurrency 64, with each policy on and off: is the score the same?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from bench.board_lines import Line
from bench.policy.questions import Question, questions
from bench.policy.stack import SPLIT, UNIFIED, Options, start
from bench.systems import Baton

NOT_COVERED = (
    "long answers, sampled ones, other models; a score of a small model says little "
    "of quality, only that it is the same"
)
CONCURRENCY = 64
SYSTEM = "You answer questions in one short sentence, truthfully, and add nothing else. " * 6


class Arm(NamedTuple):
    """One deployment."""

    shape: tuple[str, ...]
    config: str


PLAIN = '[scheduler]\nplacement = "always_pd"\nprefix_wait = false\n'
ARMS = {
    "1P1D, all off": Arm(SPLIT, PLAIN + '[prefill]\nwindow = "fixed"\n'),
    "1P1D, prefix wait": Arm(SPLIT, '[scheduler]\nplacement = "always_pd"\n'),
    "1P1D, all on": Arm(SPLIT, ""),
    "unified, mixed": Arm(UNIFIED, ""),
    "unified, alternate": Arm(UNIFIED, '[executor]\nstep_mode = "alternate"\n'),
    "unified, overlap": Arm(UNIFIED, '[executor]\nstep_mode = "overlap"\n'),
}


def measure(options: Options, folder: Path) -> dict[str, Any]:
    """One round of each arm: scores are no times."""
    asked = questions()[: max(8, int(200 * options.scale))]
    report: dict[str, Any] = {}
    for number, (name, arm) in enumerate(ARMS.items()):
        system = start(folder / str(number), arm.shape, options.cores, arm.config)
        try:
            answers = asyncio.run(_ask_all(system, asked))
        finally:
            system.close()
        rights = [is_right(question, answer) for question, answer in zip(asked, answers, strict=True)]
        report[name] = {"asked": len(asked), "right": sum(rights), "answers": answers}
    return report


def is_right(question: Question, answer: str) -> bool:
    """Whether one of the right answers is there: a word in any form that begins with it, all else as a whole."""
    said = f" {_words(answer)} "
    return any(_mark(right) in said for right in question.answers)


def _mark(right: str) -> str:
    has_forms = right.isalpha() and len(right) > 1
    return f" {_words(right)}" if has_forms else f" {_words(right)} "


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    first = next(iter(report.values()))["answers"]
    rows = []
    for name, found in report.items():
        same = sum(a == b for a, b in zip(first, found["answers"], strict=True))
        rows.append([name, str(found["right"]), str(found["asked"]), str(same)])
    yield "answers at concurrency 64", ["policies", "right", "asked", "word for word as the first"], rows


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    others = {name: float(found["right"]) for name, found in report.items()}
    first = next(iter(others))
    for name, right in others.items():
        if name != first:
            question = f"answers: right of {report[name]['asked']}, {name}"
            yield Line(question, "answers", True, right, {first: others[first]})


async def _ask_all(system: Baton, asked: list[Question]) -> list[str]:
    places = asyncio.Semaphore(CONCURRENCY)
    async with ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=600)) as session:

        async def ask(question: Question) -> str:
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question.text}]
            body = {"model": system.model, "messages": messages, "temperature": 0, "max_tokens": 24}
            async with places, session.post(f"http://127.0.0.1:{system.port}/v1/chat/completions", json=body) as answer:
                answer.raise_for_status()
                return str((await answer.json())["choices"][0]["message"]["content"])

        return list(await asyncio.gather(*(ask(question) for question in asked)))
