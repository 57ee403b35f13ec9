"""Made-up runs for the page: requests of a seed, some of which fail, and the report that follows from them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from baton.core.metrics.compat import Tool, compat
from baton.core.metrics.facts import Chunk, Failure, RequestFacts
from baton.core.metrics.goodput import Slo
from baton.core.metrics.over_time import over_time
from baton.core.metrics.report import Report, Run
from baton.core.metrics.summary import summarize

SLO = Slo(ttft_s=0.4, tpot_s=0.03, e2e_s=6.0)
FAILURES = (Failure.REFUSED, Failure.REFUSED, Failure.REFUSED, Failure.LOST, Failure.TIMEOUT)


def request(index: int, due_s: float, draw: random.Random, load: float, failure: Failure | None = None) -> RequestFacts:
    """`load` in [0, 1] makes it slow."""
    sent_s = due_s + draw.lognormvariate(-7.0, 0.8)
    first_s = sent_s + draw.lognormvariate(-2.3, 0.45) * (1 + 6 * load**3)
    pace_s = 0.014 * (1 + load) * draw.uniform(0.9, 1.15)
    chunks, at_s = [], first_s
    for _ in range(draw.randint(8, 90)):
        chunks.append(Chunk(at_s, 5, 1))
        at_s += pace_s * draw.lognormvariate(0.0, 0.25) * (6.0 if draw.random() < 0.01 else 1.0)
    if failure is Failure.REFUSED:
        chunks, at_s = [], sent_s + 0.004
    return RequestFacts(
        index=index,
        wanted_output_tokens=90,
        scheduled_s=due_s,
        dispatched_s=due_s,
        sent_s=sent_s,
        headers_s=sent_s + 0.004,
        first_event_s=chunks[0].time_s if chunks else None,
        chunks=tuple(chunks),
        done_s=at_s,
        status=503 if failure is Failure.REFUSED else 200,
        num_input_tokens=draw.randint(50, 900),
        num_cached_tokens=draw.randint(0, 40),
        num_output_tokens=-1 if failure else len(chunks),
        finish_reason="" if failure else "length",
        failure=failure,
        detail="" if failure is None else "the server takes no more requests now: 512 wait, try again in 1 s",
    )


def requests(count: int, rate_per_s: float = 20.0, share_failed: float = 0.04, seed: int = 7) -> list[RequestFacts]:
    draw = random.Random(seed)
    found, due_s = [], 0.5
    for index in range(count):
        due_s += draw.expovariate(rate_per_s)
        load = min(rate_per_s / 60.0, 1.0) * (0.4 + 0.6 * index / count)
        failure = draw.choice(FAILURES) if draw.random() < share_failed else None
        found.append(request(index, due_s, draw, load, failure))
    return found


def report_of(facts: Sequence[RequestFacts], *, slo: Slo = SLO, tools: Sequence[Tool] = (), **fields: Any) -> Report:
    run = Run(
        target="http://127.0.0.1:8000",
        model="example/some-model-0.6b",
        seed=7,
        plan_fingerprint="0123456789abcdef0123456789abcdef",
        settings={"arrivals": "poisson", "rate": 20.0, "slo": {"ttft_s": 0.4}, "workers": 2},
        machine={"cpu": "A processor with a name that is as long as they are", "cores": 2, "memory_bytes": 16 << 30},
        versions={"baton": "0.1.0", "python": "3.11.9"},
        began_at="2026-01-02T03:04:05+00:00",
    )
    made: dict[str, Any] = {
        "run": run,
        "summary": summarize(facts, slo),
        "series": over_time(facts),
        "compat": tuple(compat(tool, facts, slo) for tool in tools),
    }
    return Report(**(made | fields))


def server_series(facts: Sequence[RequestFacts]) -> dict[str, tuple[tuple[float, float], ...]]:
    seconds = range(int(max(row.done_s or 0.0 for row in facts)))
    draw = random.Random(3)
    return {
        "num_queued": tuple((at + 0.2, float(draw.randint(0, 3 + at // 4))) for at in seconds),
        "num_running": tuple((at + 0.2, float(draw.randint(8, 30))) for at in seconds),
        "kv_use": tuple((at + 0.2, min(0.1 + at / 80, 0.9) + draw.random() / 20) for at in seconds),
    }
