"""How much longer steps take while another executor of the same machine computes, from what both remember of theirs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from baton.core.sim.step_time.observed import ObservedStep

MAX_SLOWDOWN = 16.0
SEARCHES, GOLDEN = 28, (5**0.5 - 1) / 2  #: to a hundred-thousandth

Floats = npt.NDArray[np.float64]


def shares_beside(steps: Sequence[ObservedStep], beside: Sequence[ObservedStep]) -> Floats:
    """Of each step's time the part during which the other executor computed. Times of both are of one clock."""
    if not beside:
        return np.zeros(len(steps))
    spans: list[list[float]] = []
    for begin, end in sorted((step.done_at - step.duration_s, step.done_at) for step in beside):
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([begin, end])
    edges = np.array(spans).ravel()
    busy_s = np.concatenate(([0.0], np.cumsum(np.where(np.arange(len(edges) - 1) % 2 == 0, np.diff(edges), 0.0))))
    ends = np.array([step.done_at for step in steps])
    lengths = np.maximum(np.array([step.duration_s for step in steps]), 1e-9)
    busy_beside_s = np.interp(ends, edges, busy_s) - np.interp(ends - lengths, edges, busy_s)
    return np.asarray(np.clip(busy_beside_s / lengths, 0.0, 1.0), dtype=np.float64)


def alone_s(durations_s: Floats, shares: Floats, slowdown: float) -> Floats:
    """How long these steps would have taken with the machine for themselves."""
    return np.asarray(durations_s * (1.0 - shares + shares / slowdown))


def slowdown_of(durations_s: Floats, guesses_s: Floats, shares: Floats) -> float:
    """By which steps that should take `guesses_s` alone took as long as they did: that with which the logarithm of
    `alone_s` over the guess varies least among all steps, so that noise, which is a factor, moves it nowhere. 1 where
    nothing ran beside."""
    if not shares.any():
        return 1.0
    scale = np.maximum(guesses_s, 1e-9)

    def spread(slowdown: float) -> float:
        return float(np.var(np.log(np.maximum(alone_s(durations_s, shares, slowdown), 1e-9) / scale)))

    low, high = 1.0, MAX_SLOWDOWN
    for _ in range(SEARCHES):  # golden section
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if spread(left) <= spread(right) else (left, high)
    return low if low == 1.0 else (low + high) / 2
