"""Distributions. Percentiles are linear between the two nearest ranks, as `numpy.percentile` does by default."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

#: The statistics of a distribution that are percentiles, in percent.
PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
MIN_COUNT_OF_P999 = 1000  # below it, p99.9 says no more than the maximum


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Of `count` values; without values everything else is None."""

    count: int
    mean: float | None = None
    std: float | None = None  #: of these values as the whole population (numpy's default)
    min: float | None = None
    max: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None  #: None below 1000 values


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of values in ascending order, at least one; `percent` in [0, 100]."""
    place = percent / 100.0 * (len(ordered) - 1)
    below = math.floor(place)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    part = place - below
    # from the nearer end, so that rounding never leaves [low, high]
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)


def describe(values: Iterable[float]) -> Distribution:
    ordered = ascending(values)
    if not ordered:
        return Distribution(count=0)
    mean = math.fsum(ordered) / len(ordered)
    return Distribution(
        count=len(ordered),
        mean=mean,
        std=math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)),
        min=ordered[0],
        max=ordered[-1],
        **_percentiles(len(ordered), {name: percentile(ordered, percent) for name, percent in PERCENTS.items()}),
    )


def ascending(values: Iterable[float]) -> array[float]:
    """Packed, and by the machine's own numbers: there may be millions."""
    packed = array("d", values)
    if packed:
        np.frombuffer(packed).sort()
    return packed


def describe_weighted(pairs: Iterable[tuple[float, float]]) -> Distribution:
    """Of (value, weight > 0); a percentile is the smallest value that at least so much of the weight does not pass."""
    ordered = sorted(pairs)
    if not ordered:
        return Distribution(count=0)
    total = math.fsum(weight for _, weight in ordered)
    mean = math.fsum(value * weight for value, weight in ordered) / total
    return Distribution(
        count=len(ordered),
        mean=mean,
        std=math.sqrt(math.fsum(weight * (value - mean) ** 2 for value, weight in ordered) / total),
        min=ordered[0][0],
        max=ordered[-1][0],
        **_percentiles(
            len(ordered), {name: _weighted(ordered, percent / 100.0 * total) for name, percent in PERCENTS.items()}
        ),
    )


def _weighted(ordered: Sequence[tuple[float, float]], wanted: float) -> float:
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= wanted:
            return value
    return ordered[-1][0]


def _percentiles(count: int, found: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in found.items() if name != "p999" or count >= MIN_COUNT_OF_P999}
