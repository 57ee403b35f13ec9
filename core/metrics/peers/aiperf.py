"""aiperf: one inter-token latency a request, the mean of its gaps; a request ends with its last text."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.metrics.chunk_tokens import num_output_tokens
from baton.core.metrics.definitions import chunk_gaps
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import NO_SLO, Slo
from baton.core.metrics.load import per_second
from baton.core.metrics.peers.clock import Board, input_tokens, start
from baton.core.metrics.percentiles import describe


def board(rows: Sequence[RequestFacts], completed: Sequence[RequestFacts], slo: Slo) -> Board:
    latencies = [row.chunks[-1].time_s - start(row) for row in completed]
    first_tokens = [row.chunks[0].time_s - start(row) for row in completed]
    inter_token = [_inter_token_latency(row) for row in completed]
    known = [value for value in inter_token if value is not None]
    num_output = sum(num_output_tokens(row) or 0 for row in completed)
    begin = min(map(start, completed), default=0.0)
    end = max((row.chunks[-1].time_s for row in completed), default=begin)
    num_good = sum(_is_good(slo, *measured) for measured in zip(first_tokens, inter_token, latencies, strict=True))
    return {
        "time_to_first_token_s": describe(first_tokens),
        "time_to_second_token_s": describe(chunk_gaps(row)[0] for row in completed if len(row.chunks) > 1),
        "inter_token_latency_s": describe(known),
        "inter_chunk_latency_s": describe(gap for row in completed for gap in chunk_gaps(row)),
        "request_latency_s": describe(latencies),
        "output_token_throughput_per_user": describe(1.0 / value for value in known if value > 0),
    }, {
        "request_throughput": per_second(len(completed), end - begin),
        "output_token_throughput": per_second(num_output, end - begin),
        "total_token_throughput": per_second(input_tokens(completed) + num_output, end - begin),
        "goodput": None if slo == NO_SLO else per_second(num_good, end - begin),
    }


def _inter_token_latency(row: RequestFacts) -> float | None:
    count = num_output_tokens(row) or 0
    return (row.chunks[-1].time_s - row.chunks[0].time_s) / (count - 1) if count > 1 else None


def _is_good(slo: Slo, first_token: float, inter_token: float | None, latency: float) -> bool:
    """Its inter-token latency is our TPOT, so either bound applies to it; undefined, it keeps none."""
    bounds = ((slo.ttft_s, first_token), (slo.tpot_s, inter_token), (slo.itl_s, inter_token), (slo.e2e_s, latency))
    return all(bound is None or (value is not None and value <= bound) for bound, value in bounds)
