"""How often something took how much: counts between fixed bounds, as Prometheus' histograms have them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

TIMES_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
SHORT_TIMES_S = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0)


class Histogram:
    """Grows by `observe` and never falls. A value at a bound belongs below it."""

    __slots__ = ("_counts", "bounds", "num", "sum")

    def __init__(self, bounds: tuple[float, ...] = TIMES_S) -> None:
        if list(bounds) != sorted(set(bounds)):
            raise ValueError(f"bounds must grow: {bounds}")
        self.bounds = bounds
        self.num = 0  #: values so far
        self.sum = 0.0  #: of all of them
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        self.num += 1
        self.sum += value
        self._counts[bisect_left(self.bounds, value)] += 1

    def cumulative(self) -> list[int]:
        """For each bound how many are at most that; then how many there are."""
        return list(accumulate(self._counts))
