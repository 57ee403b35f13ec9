"""guidellm: percentiles are values that occur, of distributions in which a request weighs as much as it has tokens."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.metrics.chunk_tokens import num_output_tokens
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import Slo
from baton.core.metrics.load import per_second
from baton.core.metrics.peers.clock import Board, input_tokens, start
from baton.core.metrics.percentiles import describe_weighted


def board(rows: Sequence[RequestFacts], completed: Sequence[RequestFacts], slo: Slo) -> Board:
    """Of its rates, the means."""
    counted = [(row, num_output_tokens(row) or len(row.chunks)) for row in completed]
    num_output = sum(count for _, count in counted)
    begin, end = min(map(start, completed), default=0.0), max(map(_end, completed), default=0.0)
    return {
        "time_to_first_token_s": describe_weighted((row.chunks[0].time_s - start(row), 1.0) for row in completed),
        "time_per_output_token_s": describe_weighted(
            ((row.chunks[-1].time_s - start(row)) / count, float(count)) for row, count in counted
        ),
        "inter_token_latency_s": describe_weighted(
            ((row.chunks[-1].time_s - row.chunks[0].time_s) / (count - 1), count - 1.0)
            for row, count in counted
            if count > 1
        ),
        "request_latency_s": describe_weighted((_end(row) - start(row), 1.0) for row in completed),
    }, {
        "requests_per_second": per_second(len(completed), end - begin),
        "output_tokens_per_second": per_second(num_output, end - begin),
        "tokens_per_second": per_second(input_tokens(completed) + num_output, end - begin),
    }


def _end(row: RequestFacts) -> float:
    return row.chunks[-1].time_s if row.done_s is None else row.done_s
