"""Figures of several runs as estimates, and differences of two deployments that got the same load.

Runs of different seeds are replications. Of one run its consecutive parts are: requests of one part of the load are the
same in both deployments, so their difference is theirs and not the load's. The rate at which requests were due counts
with its mean over the runs: how a seed's arrivals happen to fall says nothing of a deployment.
"""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.metrics.intervals import ZERO_TO_ONE, Estimate, Range, estimate, range_of
from baton.core.sim.study.measured import DUE, GOOD, SHARE, Measured


def figure(runs: Sequence[Measured], name: str) -> Estimate | None:
    """Over runs of one deployment under one load; None where a run does not have the figure."""
    found = [run.figures.get(name) for run in runs]
    values = [value for value in found if value is not None]
    if not values or len(values) < len(found):
        return None
    if name == SHARE:
        return _over(_parts(runs, 1.0), len(runs), ZERO_TO_ONE)
    if name == GOOD:
        return _over(_parts(runs, _due(runs)), len(runs), Range(0.0, _due(runs)))
    if len(values) > 1:
        return estimate(values, range_of(name))
    return runs[0].within.get(name) or estimate(values)


def good_difference(first: Sequence[Measured], second: Sequence[Measured]) -> Estimate | None:
    """Of `GOOD`, first − second; run i of both had one seed. None where a run does not have it. It is at most what was
    due for one, all of it good, while nothing was for the other."""
    if not all(GOOD in run.figures for run in (*first, *second)):
        return None
    most, least = _due(first), _due(second)
    parts = zip(_parts(first, most), _parts(second, least), strict=True)
    return _over([a - b for a, b in parts], len(first), Range(-least, most))


def _due(runs: Sequence[Measured]) -> float:
    return sum(run.figures[DUE] for run in runs) / len(runs)


def _parts(runs: Sequence[Measured], factor: float) -> list[float]:
    """Shares of good requests times a factor: of each run, or of the parts of one."""
    if len(runs) == 1:
        return [share * factor for share in runs[0].share_by_part or (runs[0].figures[SHARE],)]
    return [run.figures[SHARE] * factor for run in runs]


def _over(values: Sequence[float], num_runs: int, within: Range) -> Estimate:
    found = estimate(values, within)
    return Estimate(value=found.value, low=found.low, high=found.high, num_runs=num_runs)
