"""Prefix wait: a burst of requests with one long system prompt that no cache holds, and unrelated ones beside it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from baton.core.metrics.percentiles import percentile
from bench.board_lines import Line
from bench.policy.stack import SPLIT, Options, metric_rows, start
from bench.systems import Baton

NOT_COVERED = "several executors that could compute the prefix, prefixes that are partly cached, cache salts"
NUM_SHARED_TOKENS, NUM_OWN_TOKENS, NUM_OUTPUT_TOKENS = 1024, 16, 4
NUM_BURST, NUM_UNRELATED, UNRELATED_EVERY_S = 128, 12, 0.5
FIRST_ID, END_ID = 100, 40_000
BASE = '[scheduler]\nplacement = "always_pd"\n'
ARMS = {"wait": BASE, "no wait": BASE + "prefix_wait = false\n"}


class Asked(NamedTuple):
    """One answer as its client saw it: seconds from sending to the first token; when that was."""

    ttft_s: float
    first_at: float


class Round(NamedTuple):
    """One burst on a cold stack. Milliseconds, but for the tokens and shares."""

    burst_p50_ms: float
    burst_p99_ms: float
    unrelated_p50_ms: float
    unrelated_p99_ms: float
    alone_p50_ms: float  #: unrelated requests without a burst, on the same stack
    alone_p99_ms: float
    computed_tokens: float  #: of prompts, in the burst and beside it
    least_tokens: float  #: that must be computed if every full shared block is computed once
    in_order: float  #: share of neighbours in the burst whose first tokens came in the order of asking


def measure(options: Options, folder: Path) -> dict[str, Any]:
    rounds: dict[str, list[Round]] = {arm: [] for arm in ARMS}
    count = max(8, int(NUM_BURST * options.scale))
    for number in range(options.num_rounds):
        for arm, config in ARMS.items():
            system = start(folder / f"{arm}{number}", SPLIT, options.cores, config)
            try:
                rounds[arm].append(asyncio.run(_round(system, count, number)))
            finally:
                system.close()
    return {arm: {k: median(getattr(r, k) for r in found) for k in Round._fields} for arm, found in rounds.items()}


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    heads = ["", "burst TTFT p50 / p99 ms", "unrelated p50 / p99 ms", "the same without a burst"]
    heads += ["prompt tokens", "least", "in order"]
    rows = []
    for arm, found in report.items():
        whose = ("burst", "unrelated", "alone")
        times = [f"{found[f'{who}_p50_ms']:.0f} / {found[f'{who}_p99_ms']:.0f}" for who in whose]
        tokens = [f"{found[key]:.0f}" for key in ("computed_tokens", "least_tokens")]
        rows.append([arm, *times, *tokens, f"{found['in_order']:.2f}"])
    yield "prefix wait", heads, rows


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    wait, plain = report["wait"], report["no wait"]
    yield Line("prefix wait: prompt tokens computed", "tokens", False, wait["computed_tokens"],
               {"no wait": plain["computed_tokens"]}, wait["least_tokens"], "each block once")  # fmt: skip
    for key in ("burst_p50_ms", "burst_p99_ms", "unrelated_p99_ms"):
        yield Line(f"prefix wait: TTFT {key}", "ms", False, wait[key], {"no wait": plain[key]})


async def _round(system: Baton, count: int, seed: int) -> Round:
    rng = random.Random(seed)
    shared = [rng.randrange(FIRST_ID, END_ID) for _ in range(NUM_SHARED_TOKENS)]
    async with ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=600)) as session:

        async def ask(prompt: list[int]) -> Asked:
            body = {"model": system.model, "prompt": prompt, "max_tokens": NUM_OUTPUT_TOKENS, "stream": True}
            sent_at = time.monotonic()
            async with session.post(f"http://127.0.0.1:{system.port}/v1/completions", json=body) as answer:
                answer.raise_for_status()
                first_at = 0.0
                async for line in answer.content:
                    if not first_at and line.startswith(b"data: {") and json.loads(line[6:])["choices"]:
                        first_at = time.monotonic()
            return Asked(first_at - sent_at, first_at)

        def own(length: int) -> list[int]:
            return [rng.randrange(FIRST_ID, END_ID) for _ in range(length)]

        async def unrelated() -> list[Asked]:
            tasks = []
            for _ in range(NUM_UNRELATED):
                tasks.append(asyncio.create_task(ask(own(64))))
                await asyncio.sleep(UNRELATED_EVERY_S)
            return list(await asyncio.gather(*tasks))

        await ask(own(64))
        alone = await unrelated()
        before = _computed(system)
        beside = asyncio.create_task(unrelated())
        burst = list(await asyncio.gather(*(ask([*shared, *own(NUM_OWN_TOKENS)]) for _ in range(count))))
        apart = await beside
        computed = _computed(system) - before
    least = NUM_SHARED_TOKENS + count * NUM_OWN_TOKENS + NUM_UNRELATED * 64
    return Round(*_p50_p99(burst), *_p50_p99(apart), *_p50_p99(alone), computed, least, _in_order(burst))


def _computed(system: Baton) -> float:
    return sum(rows.get("baton_prompt_tokens_computed_total", 0.0) for rows in metric_rows(system).values())


def _p50_p99(asked: Sequence[Asked]) -> tuple[float, float]:
    times_ms = sorted(one.ttft_s * 1e3 for one in asked)
    return percentile(times_ms, 50), percentile(times_ms, 99)


def _in_order(asked: Sequence[Asked]) -> float:
    """Those of one step come together, in any order on their ways: a millisecond is none."""
    pairs = list(pairwise(asked))
    return sum(a.first_at <= b.first_at + 1e-3 for a, b in pairs) / max(1, len(pairs))
