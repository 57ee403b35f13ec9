"""Which of several points nobody beats: more goodput costs latency there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Tradeoff(NamedTuple):
    """What one candidate gave at one rate."""

    name: str
    rate: float
    good_per_s: float
    latency_s: float


def frontier(points: Sequence[Tradeoff]) -> list[Tradeoff]:
    """Those without another one that has at least as much goodput at no more latency, and one of both better; of equal
    ones the first. By ascending latency."""
    found: list[Tradeoff] = []
    for point in sorted(points, key=lambda point: (point.latency_s, -point.good_per_s)):
        if not found or point.good_per_s > found[-1].good_per_s:
            found.append(point)
    return found
