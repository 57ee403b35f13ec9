"""Step modes of a unified executor: the times between tokens of answers beside which a long prompt is computed now and
then, and how soon that prompt's own first token comes. On both cores, in turns."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from baton.core.metrics.percentiles import percentile
from bench.board_lines import Line
from bench.machine import process_cpu_s
from bench.policy.stack import UNIFIED, Options, start
from bench.systems import Baton

NOT_COVERED = "more than one long prompt at once, devices with streams or partitions of their own, more cores"
NUM_ANSWERS, NUM_ANSWER_TOKENS = 4, 160
NUM_PROMPTS, NUM_PROMPT_TOKENS, EVERY_S = 3, 1024, 4.0
REST_S = 5.0
ARMS = {
    "mixed": "",
    "mixed, chunks of 256": "[executor]\nlong_prefill_tokens = 256\n",
    "alternate": '[executor]\nstep_mode = "alternate"\n',
    "overlap, shared": '[executor]\nstep_mode = "overlap"\n[device]\noverlap = "shared"\n',
    "overlap, partitioned": '[executor]\nstep_mode = "overlap"\n[device]\noverlap = "partitioned"\n',
}


class Round(NamedTuple):
    """Milliseconds, but for the share."""

    itl_p50_ms: float
    itl_p90_ms: float
    itl_p99_ms: float
    longest_gap_ms: float
    prompt_ttft_ms: float  #: of the long prompts beside the answers, median
    alone_ttft_ms: float  #: of one with nothing beside it and nobody else coming
    rest_share: float  #: of a core, by the executor at rest


def measure(options: Options, folder: Path) -> dict[str, Any]:
    rounds: dict[str, list[Round]] = {arm: [] for arm in ARMS}
    for number in range(options.num_rounds):
        for arm, config in ARMS.items():
            system = start(folder / f"{arm}{number}", UNIFIED, options.cores, config)
            try:
                rounds[arm].append(asyncio.run(_round(system, number, options.scale)))
            finally:
                system.close()
    return {arm: {k: median(getattr(r, k) for r in found) for k in Round._fields} for arm, found in rounds.items()}


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    heads = ["steps", "ITL p50 / p90 / p99 ms", "longest gap ms", "long prompt's TTFT ms", "the same alone"]
    heads.append("rest, cores")
    rows = []
    for arm, found in report.items():
        itl = " / ".join(f"{found[f'itl_{p}_ms']:.1f}" for p in ("p50", "p90", "p99"))
        others = [f"{found[key]:.0f}" for key in ("longest_gap_ms", "prompt_ttft_ms", "alone_ttft_ms")]
        rows.append([arm, itl, *others, f"{found['rest_share']:.4f}"])
    yield "step modes of a unified executor, long prompts beside answers", heads, rows


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    for arm, found in report.items():
        others = {name: other["itl_p99_ms"] for name, other in report.items() if name == "mixed" and name != arm}
        yield Line(f"step modes: ITL p99 beside a long prompt, {arm}", "ms", False, found["itl_p99_ms"], others)


async def _round(system: Baton, seed: int, scale: float) -> Round:
    rng = random.Random(seed)
    executor = system.processes()["unified"][0]
    async with ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=600)) as session:

        async def ask(num_prompt: int, num_output: int) -> list[float]:
            """Seconds from sending to each event with a token."""
            prompt = [rng.randrange(100, 40_000) for _ in range(num_prompt)]
            body = {"model": system.model, "prompt": prompt, "max_tokens": num_output, "stream": True}
            body |= {"ignore_eos": True, "min_tokens": num_output}
            sent_at, came = time.monotonic(), []
            async with session.post(f"http://127.0.0.1:{system.port}/v1/completions", json=body) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    if line.startswith(b"data: {") and json.loads(line[6:])["choices"]:
                        came.append(time.monotonic() - sent_at)
            return came

        async def prompts() -> list[float]:
            found = []
            for _ in range(NUM_PROMPTS):
                await asyncio.sleep(EVERY_S * scale)
                found.append((await ask(NUM_PROMPT_TOKENS, 2))[0])
            return found

        await ask(64, 8)
        alone = (await ask(NUM_PROMPT_TOKENS, 1))[0]
        before = process_cpu_s(executor)
        await asyncio.sleep(REST_S)
        rest = (process_cpu_s(executor) - before) / REST_S
        count = max(32, int(NUM_ANSWER_TOKENS * scale))
        *answers, beside = await asyncio.gather(*(ask(32, count) for _ in range(NUM_ANSWERS)), prompts())
    gaps = sorted((b - a) * 1e3 for came in answers for a, b in pairwise(came))
    p50, p90, p99 = (percentile(gaps, p) for p in (50, 90, 99))
    return Round(p50, p90, p99, gaps[-1], median(beside) * 1e3, alone * 1e3, rest)
