"""When requests are due: absolute times in seconds since their phase began, all known before the first is sent.

Each kind has a rate in the long run. Times are sums of gaps, never of sleeps, so whoever sends cannot drift.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from baton.services.loadgen.load_errors import MAX_REQUESTS, TooMany

Times = npt.NDArray[np.float64]

GAPS_AT_ONCE = 4096


class ArrivalKind(enum.StrEnum):
    """How requests come."""

    AUTO = "auto"  #: a trace's own times where it has any and no rate is given; else poisson; without a rate closed
    TRACE = "trace"  #: at the times of the trace
    CLOSED = "closed"  #: each as soon as a place is free
    CONSTANT = "constant"  #: with the same gap
    POISSON = "poisson"  #: independently of each other
    GAMMA = "gamma"  #: gaps of a gamma distribution of shape `burstiness`: 1 is poisson, below 1 comes in clusters
    BURST = "burst"  #: so many at once, every so often


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """An open load: what `due_times` needs to know."""

    kind: ArrivalKind
    rate: float = 0.0  #: per second; not of BURST
    burstiness: float = 1.0
    burst_size: int = 1
    burst_every_s: float = 1.0


def due_times(arrivals: Arrivals, rng: np.random.Generator, *, count: int = 0, duration_s: float = 0.0) -> Times:
    """Ascending times, `[num_requests]`: the first `count` of those below `duration_s`. A limit of 0 is none; one of
    the two must be given. A duration is of time, not of requests: Poisson arrivals vary in number. Raises TooMany."""
    if not count and not duration_s:
        raise ValueError("neither a number nor a duration")
    parts: list[Times] = []
    num_times = 0
    for times in _batches(arrivals, rng):
        if duration_s and times[-1] >= duration_s:
            parts.append(times[times < duration_s])
            break
        parts.append(times)
        num_times += len(times)
        if num_times >= (count or MAX_REQUESTS + 1):
            break
    found = np.concatenate(parts)
    if not count and len(found) > MAX_REQUESTS:
        raise TooMany(f"{duration_s:g} s at this rate")
    return found[:count] if count else found


def _batches(arrivals: Arrivals, rng: np.random.Generator) -> Iterator[Times]:
    """Without end. Times at a constant rate and of bursts are products, so that no rounding adds up."""
    numbers, start_s = np.arange(GAPS_AT_ONCE, dtype=np.int64), 0.0
    while True:
        match arrivals.kind:
            case ArrivalKind.CONSTANT:
                yield numbers / arrivals.rate
            case ArrivalKind.BURST:
                yield (numbers // arrivals.burst_size).astype(np.float64) * arrivals.burst_every_s
            case ArrivalKind.POISSON | ArrivalKind.GAMMA:
                shape = arrivals.burstiness if arrivals.kind == ArrivalKind.GAMMA else 1.0
                gaps = rng.gamma(shape, 1 / (arrivals.rate * shape), GAPS_AT_ONCE)
                times = np.asarray(start_s + np.cumsum(gaps), dtype=np.float64)
                start_s = float(times[-1])
                yield times
            case ArrivalKind.AUTO | ArrivalKind.TRACE | ArrivalKind.CLOSED:
                raise ValueError(f"{arrivals.kind} has no times of its own")
        numbers = numbers + GAPS_AT_ONCE
