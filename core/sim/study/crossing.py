"""Where along the rates one deployment is better than the other, and where this turns, from the differences at the
rates that were measured and their intervals.

Between two measured rates differences and the ends of their intervals are taken to be linear. A difference counts only
where its interval leaves 0 out and it is larger than `MIN_SHARE` of the better one's figure: with the same load on both
sides even a difference that matters to nobody can be certain.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from baton.core.metrics.intervals import Estimate

MIN_SHARE = 0.01


class Better(enum.Enum):
    FIRST = 1
    NEITHER = 0  #: no difference beyond noise
    SECOND = -1

    @property
    def other(self) -> Better:
        return Better(-self.value)


class Point(NamedTuple):
    """At one rate."""

    rate: float
    difference: Estimate  #: first − second
    scale: float  #: the larger of the two figures: what a difference is a part of

    @property
    def better(self) -> Better:
        """Without an interval nothing is certain."""
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or abs(self.difference.value) <= MIN_SHARE * abs(self.scale):
            return Better.NEITHER
        if low > 0:
            return Better.FIRST
        return Better.SECOND if high < 0 else Better.NEITHER


class Region(NamedTuple):
    """Neighbouring measured rates with one answer, [begin, end]."""

    better: Better
    points: tuple[Point, ...]

    @property
    def begin(self) -> float:
        return self.points[0].rate

    @property
    def end(self) -> float:
        return self.points[-1].rate

    @property
    def largest(self) -> Point:
        """Where the difference is the largest part of the better figure."""
        return max(self.points, key=lambda point: abs(point.difference.value) / (abs(point.scale) or 1.0))


class Crossing(NamedTuple):
    """Below it one is better, above it the other."""

    rate: float  #: the difference is 0
    low: float  #: the last rate at which the one below is certainly better
    high: float  #: the first rate at which the one above is certainly better
    above: Better
    begin: float  #: the measured rates between which this is interpolated
    end: float


def regions(points: Sequence[Point]) -> list[Region]:
    """In the order of the rates, which ascend."""
    return [Region(better, tuple(found)) for better, found in groupby(points, key=lambda point: point.better)]


def crossings(points: Sequence[Point]) -> list[Crossing]:
    """Between each two regions with opposite answers that follow each other, or have only NEITHER between them."""
    found = []
    decided = [index for index, point in enumerate(points) if point.better is not Better.NEITHER]
    for left, right in pairwise(decided):
        if points[left].better is points[right].better.other:
            found.append(_crossing(points[left : right + 1]))
    return found


def _crossing(between: Sequence[Point]) -> Crossing:
    """`between`: from the last rate of one answer to the first of the opposite one."""
    above = between[-1].better
    sign = above.value

    def upper(point: Point) -> float:
        """The end of the interval that the answer above speaks for: positive as soon as it may be the better one."""
        end = point.difference.high if sign > 0 else point.difference.low
        return sign * _known(end, point)

    def lower(point: Point) -> float:
        end = point.difference.low if sign > 0 else point.difference.high
        return sign * _known(end, point)

    low = _first_zero([(point.rate, upper(point)) for point in between])
    rate = _first_zero([(point.rate, sign * point.difference.value) for point in between])
    # from the other side: the last time that it was not certain
    high = max(low, _first_zero([(point.rate, -lower(point)) for point in reversed(between)]))  # but for rounding
    ends = between[0].rate, between[-1].rate
    return Crossing(min(max(rate, low), high), low, high, above, *ends)


def _known(end: float | None, point: Point) -> float:
    return point.difference.value if end is None else end


def _first_zero(line: Sequence[tuple[float, float]]) -> float:
    """Where a line of (place, height), which begins below 0 and ends above it, first reaches 0."""
    for (x0, y0), (x1, y1) in pairwise(line):
        if y1 >= 0:
            return x0 + (x1 - x0) * (-y0 / (y1 - y0)) if y0 < 0 else x0
    return line[-1][0]
