"""A summary as rows, for a CSV file: figure, unit, statistic, value. What is undefined has no row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from baton.core.metrics.definitions import UNITS
from baton.core.metrics.intervals import Estimate, unit_of
from baton.core.metrics.percentiles import Distribution
from baton.core.metrics.summary import Summary

COLUMNS = ("figure", "unit", "statistic", "value")

Row = tuple[str, str, str, float]


def rows(summary: Summary, intervals: Mapping[str, Estimate] = MappingProxyType({})) -> Iterator[Row]:
    counts = summary.counts
    for name in ("planned", "succeeded", "failed", "cancelled", "cut_short"):
        yield "requests", "requests", name, getattr(counts, name)
    for failure, count in counts.failures.items():
        yield "failures", "requests", failure, count
    for figure, distribution in summary.distributions.items():
        for name in Distribution.__struct_fields__:
            if (value := getattr(distribution, name)) is not None:
                yield figure, "values" if name == "count" else UNITS[figure], name, value
    for figure, unit, statistic, maybe in _singles(summary):
        if maybe is not None:
            yield figure, unit, statistic, maybe
    for name, found in intervals.items():
        for statistic, maybe in (("estimate", found.value), ("low", found.low), ("high", found.high)):
            if maybe is not None:
                yield name, unit_of(name), statistic, maybe
        yield name, "runs", "count", found.num_runs


def _singles(summary: Summary) -> Iterator[tuple[str, str, str, float | None]]:
    throughput, goodput = summary.throughput, summary.goodput
    yield "span", "s", "length", summary.span.length_s
    yield "requests", "requests/s", "throughput", throughput.requests_per_s
    yield "output_tokens", "tokens/s", "throughput", throughput.output_tokens_per_s
    yield "input_tokens", "tokens/s", "throughput", throughput.input_tokens_per_s
    yield "uncached_input_tokens", "tokens/s", "throughput", throughput.uncached_input_tokens_per_s
    yield "request_rate", f"{summary.rate.what}/s", "asked", summary.rate.asked_per_s
    yield "request_rate", f"{summary.rate.what}/s", "achieved", summary.rate.achieved_per_s
    yield "concurrency", "requests", "mean", summary.concurrency.mean
    yield "concurrency", "requests", "max", summary.concurrency.max
    yield "prefix_hits", "share", "rate", summary.prefix_hit_rate
    if goodput is not None:
        yield "goodput", "share", "share", goodput.share
        yield "goodput", "requests/s", "rate", goodput.good_per_s
        for name, share in goodput.attainment.items():
            yield "slo_attainment", "share", name, share
    yield "degraded", "reasons", "count", len(summary.degraded)
