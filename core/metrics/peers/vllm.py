"""`vllm bench serve`: a request's first event is its first token, and all gaps between events are latencies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from baton.core.metrics.chunk_tokens import num_output_tokens
from baton.core.metrics.definitions import failure_of
from baton.core.metrics.facts import Failure, RequestFacts
from baton.core.metrics.goodput import NO_SLO, Slo
from baton.core.metrics.load import per_second
from baton.core.metrics.peers.clock import UNNOTICED, Board, input_tokens, start
from baton.core.metrics.percentiles import describe


def completes(row: RequestFacts) -> bool:
    """Any event with a choice will do, a role event too; error events are passed over."""
    failure = failure_of(row)
    if failure is None or failure in UNNOTICED or failure is Failure.EMPTY:
        return bool(_events(row))
    return failure is Failure.ERROR_EVENT and bool(row.chunks)


def board(rows: Sequence[RequestFacts], completed: Sequence[RequestFacts], slo: Slo) -> Board:
    events = [_events(row) for row in completed]
    counts = [num_output_tokens(row) or 1 for row in completed]
    ttft = [times[0] - start(row) for row, times in zip(completed, events, strict=True)]
    e2el = [times[-1] - start(row) for row, times in zip(completed, events, strict=True)]
    tpot = [
        (whole - first) / (count - 1) if count > 1 else 0.0
        for whole, first, count in zip(e2el, ttft, counts, strict=True)
    ]
    begin = min(map(start, rows), default=0.0)
    end = max((row.done_s for row in rows if row.done_s is not None), default=begin)
    return {
        "ttft_s": describe(ttft),
        "tpot_s": describe(value for value, count in zip(tpot, counts, strict=True) if count > 1),
        "itl_s": describe(after - before for times in events for before, after in pairwise(times)),
        "e2el_s": describe(e2el),
    }, {
        "request_throughput": per_second(len(completed), end - begin),
        "output_throughput": per_second(sum(counts), end - begin),
        "total_token_throughput": per_second(input_tokens(completed) + sum(counts), end - begin),
        "request_goodput": None if slo == NO_SLO else per_second(_num_good(slo, ttft, tpot, e2el), end - begin),
    }


def _events(row: RequestFacts) -> list[float]:
    times = [chunk.time_s for chunk in row.chunks]
    if row.first_event_s is not None and (not times or row.first_event_s < times[0]):
        times.insert(0, row.first_event_s)
    return times


def _num_good(slo: Slo, ttft: list[float], tpot: list[float], e2el: list[float]) -> int:
    """A request of one token counts with a TPOT of 0."""
    bounds = (slo.ttft_s, slo.tpot_s, slo.e2e_s)
    return sum(
        all(bound is None or value <= bound for bound, value in zip(bounds, measured, strict=True))
        for measured in zip(ttft, tpot, e2el, strict=True)
    )
