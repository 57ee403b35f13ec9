"""A run over time, for plots: one value for each bin of equal length; the last bin may be shorter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from baton.core.metrics.chunk_tokens import chunk_times, chunk_tokens
from baton.core.metrics.definitions import (
    e2e_from_schedule,
    failure_of,
    is_success,
    time_per_output_token,
    ttft_from_schedule,
)
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.load import MIN_LENGTH_S, Span, open_intervals, span_of
from baton.core.metrics.percentiles import percentile
from baton.core.metrics.summary import measured

MAX_BINS = 120
PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0}

Values = tuple[float | None, ...]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Bin i is `[begin_s + i · bin_s, begin_s + (i + 1) · bin_s)`; every tuple has one value for each bin.

    Latencies of successes stand in the bin in which the request was due. None: nothing was due there.
    """

    begin_s: float
    bin_s: float
    due_per_s: tuple[float, ...]  #: requests that were due before the run ended
    succeeded_per_s: tuple[float, ...]  #: by their end
    failed_per_s: tuple[float, ...]  #: by their end, or by when they were due if they have none
    output_tokens_per_s: tuple[float, ...]  #: of successes, by the time of their chunk
    concurrency: tuple[float, ...]  #: requests open, mean over the bin
    ttft_from_schedule_s: dict[str, Values]  #: by the names in PERCENTS
    e2e_from_schedule_s: dict[str, Values]
    tpot_s: dict[str, Values]


def over_time(facts: Iterable[RequestFacts], bin_s: float | None = None, span: Span | None = None) -> Series:
    """Of the measured phase. `bin_s` is the shortest of 1, 2, 5 times a power of ten that gives at most 120 bins."""
    rows = measured(facts)
    bins = _Bins(span_of(rows) if span is None else span, bin_s)
    good = [row for row in rows if is_success(row)]
    failed = [row for row in rows if failure_of(row) is not None]
    return Series(
        begin_s=bins.span.begin_s,
        bin_s=bins.bin_s,
        due_per_s=bins.rates([(row.scheduled_s, 1.0) for row in rows if row.scheduled_s <= bins.span.end_s]),
        succeeded_per_s=bins.rates([(row.done_s, 1.0) for row in good if row.done_s is not None]),
        failed_per_s=bins.rates([(row.scheduled_s if row.done_s is None else row.done_s, 1.0) for row in failed]),
        output_tokens_per_s=bins.token_rates(good),
        concurrency=bins.concurrency(rows),
        ttft_from_schedule_s=bins.percentiles((row.scheduled_s, ttft_from_schedule(row)) for row in good),
        e2e_from_schedule_s=bins.percentiles((row.scheduled_s, e2e_from_schedule(row)) for row in good),
        tpot_s=bins.percentiles((row.scheduled_s, time_per_output_token(row)) for row in good),
    )


class _Bins:
    """The bins of a span, and what falls into them. What lies past an end of the span counts to that end's bin."""

    def __init__(self, span: Span, bin_s: float | None) -> None:
        self.span = span
        self.bin_s = bin_s or _round_up(span.length_s / MAX_BINS)
        # a rest of less than half a bin belongs to the last one: a lone event in it would show as a high rate
        self.count = max(1, math.floor(span.length_s / self.bin_s + 0.5))

    def place(self, time_s: float) -> int:
        return min(max(int((time_s - self.span.begin_s) / self.bin_s), 0), self.count - 1)

    def edges(self, index: int) -> tuple[float, float]:
        """The first and the last bin reach to the ends of the span."""
        begin = self.span.begin_s + index * self.bin_s
        return begin, self.span.end_s if index == self.count - 1 else begin + self.bin_s

    def width_s(self, index: int) -> float:
        begin, end = self.edges(index)
        return end - begin if end - begin >= MIN_LENGTH_S else self.bin_s

    def rates(self, events: Iterable[tuple[float, float]]) -> tuple[float, ...]:
        """Of (time, amount), per second."""
        sums = [0.0] * self.count
        for time_s, amount in events:
            sums[self.place(time_s)] += amount
        return self._per_second(sums)

    def token_rates(self, rows: Iterable[RequestFacts]) -> tuple[float, ...]:
        """Tokens by the time of their chunk, per second."""
        sums = np.zeros(self.count)
        for row in rows:
            counts = chunk_tokens(row)
            if counts:
                places = (np.array(chunk_times(row)) - self.span.begin_s) / self.bin_s
                inside = np.clip(places.astype(np.int64), 0, self.count - 1)
                sums += np.bincount(inside, counts, self.count)
        return self._per_second(sums.tolist())

    def _per_second(self, sums: Sequence[float]) -> tuple[float, ...]:
        return tuple(amount / self.width_s(index) for index, amount in enumerate(sums))

    def concurrency(self, rows: Sequence[RequestFacts]) -> tuple[float, ...]:
        areas = [0.0] * self.count
        for begin_s, end_s in open_intervals(rows, self.span):
            for index in range(self.place(begin_s), self.place(end_s) + 1):
                begin, end = self.edges(index)
                areas[index] += max(min(end, end_s) - max(begin, begin_s), 0.0)
        return tuple(area / self.width_s(index) for index, area in enumerate(areas))

    def percentiles(self, latencies: Iterable[tuple[float, float | None]]) -> dict[str, Values]:
        """Of (time, latency)."""
        found: list[list[float]] = [[] for _ in range(self.count)]
        for time_s, latency in latencies:
            if latency is not None:
                found[self.place(time_s)].append(latency)
        for numbers in found:
            numbers.sort()
        return {
            name: tuple(percentile(numbers, percent) if numbers else None for numbers in found)
            for name, percent in PERCENTS.items()
        }


def _round_up(length_s: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is no less; at least a millisecond."""
    if length_s <= 1e-3:
        return 1e-3
    power = 10.0 ** math.floor(math.log10(length_s))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= length_s))
