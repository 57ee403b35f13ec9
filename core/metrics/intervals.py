"""How sure a figure is: 95 % confidence intervals over runs that differ by their seed, or within one run.

- Over runs: Student's t of the runs' figures. Runs of different seeds are independent, so this needs no more than that
  the figure is roughly normal among them.
- No interval reaches beyond what the figure can be (`range_of`): there is no negative time, and no share above 1. It is
  uneven around its value then.
- Within one run: batch means. Requests one after the other share a queue, so that they are no independent draws and the
  interval of an order statistic would be too narrow. The run is cut in its order into `NUM_BATCHES` parts, each long
  against that memory, and the figure's spread among the parts tells its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from baton.core.metrics.definitions import UNITS, figures, is_success, values
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.percentiles import PERCENTS, ascending, percentile
from baton.core.metrics.summary import Summary, measured

CONFIDENCE = 0.95
NUM_BATCHES = 10
#: those figures of a run that are shown with an interval
TIMES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
STATISTICS = ("p50", "p90", "p95", "p99")
RATES = {
    "requests_per_s": "requests/s",
    "output_tokens_per_s": "tokens/s",
    "prefix_hit_rate": "share",
    "goodput.share": "share",
    "goodput.good_per_s": "requests/s",
}

MIN_RUNS = 3  #: two runs have one degree of freedom: t is 12.7, three times that of three

#: 97.5 % quantiles of Student's t for 1 … 30 degrees of freedom
_T = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z = 1.959964


class Range(NamedTuple):
    """What a figure can be, both ends included."""

    least: float
    most: float


ANY, NOT_NEGATIVE, ZERO_TO_ONE = Range(-math.inf, math.inf), Range(0.0, math.inf), Range(0.0, 1.0)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its interval, in the figure's unit."""

    value: float  #: the mean over runs; of one run its own figure
    low: float | None = None  #: None: one run that says nothing of its own spread
    high: float | None = None
    num_runs: int = 1  #: 1: the interval is of the run's parts

    @property
    def half_share(self) -> float | None:
        """Half the interval as a part of the value; None where it is not even around it."""
        if self.low is None or self.high is None or not self.value or not self.is_even:
            return None
        return (self.high - self.low) / 2 / abs(self.value)

    @property
    def is_even(self) -> bool:
        """Whether the interval reaches as far below the value as above it: at an end of what is possible it does not.
        False without an interval."""
        if self.low is None or self.high is None:
            return False
        return math.isclose(self.high - self.value, self.value - self.low, rel_tol=1e-6, abs_tol=1e-9 * abs(self.value))


def student_t(num_values: int) -> float:
    """By which the standard error of a mean of so many values is multiplied. Raises ValueError below two."""
    degrees = num_values - 1
    if degrees < 1:
        raise ValueError(f"{num_values} values have no spread")
    if degrees <= len(_T):
        return _T[degrees - 1]
    cube, fifth = _Z**3, _Z**5
    return _Z + (cube + _Z) / (4 * degrees) + (5 * fifth + 16 * cube + 3 * _Z) / (96 * degrees * degrees)


def range_of(name: str) -> Range:
    """Of a figure of `headline`, or of another time, rate or price by its name: none of them is negative."""
    return ZERO_TO_ONE if RATES.get(name) == "share" else NOT_NEGATIVE


def caution(num_runs: int) -> str:
    """What is to be said of intervals over so many runs; empty: nothing."""
    if not 1 < num_runs < MIN_RUNS:
        return ""
    text = f"{num_runs} runs tell little of how far runs differ, so that these intervals are very wide"
    return f"{text}; {MIN_RUNS} or more say more"


def estimate(found: Sequence[float], within: Range = ANY) -> Estimate:
    """Of one figure of several runs, or of its differences or ratios between paired runs: their mean. `within`: what
    the figure can be. Raises ValueError without one."""
    if not found:
        raise ValueError("no run has this figure")
    mean = math.fsum(found) / len(found)
    if len(found) == 1:
        return Estimate(value=mean)
    half = _half(found, mean)
    return _around(mean, half, within, len(found))


def headline(summary: Summary) -> dict[str, float]:
    """The figures that are worth an interval, by name: `<distribution>.<percentile>`, rates, the share of goodput."""
    found: dict[str, float | None] = {
        f"{name}.{statistic}": getattr(summary.distributions[name], statistic)
        for name in TIMES
        if name in summary.distributions
        for statistic in STATISTICS
    }
    for name in ("requests_per_s", "output_tokens_per_s"):
        found[name] = getattr(summary.throughput, name)
    found["prefix_hit_rate"] = summary.prefix_hit_rate
    if summary.goodput is not None:
        found |= {"goodput.share": summary.goodput.share, "goodput.good_per_s": summary.goodput.good_per_s}
    return {name: value for name, value in found.items() if value is not None}


def unit_of(name: str) -> str:
    """Of a figure of `headline`."""
    return RATES.get(name) or UNITS[name.rpartition(".")[0]]


def over_runs(runs: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    """Of `headline`s; a figure that one of the runs does not have is left out."""
    names = runs[0] if runs else {}
    whole = [name for name in names if all(name in run for run in runs)]
    return {name: estimate([run[name] for run in runs], range_of(name)) for name in whole}


def within_run(facts: Iterable[RequestFacts]) -> dict[str, Estimate]:
    """Percentiles of times of one run; those beyond which each part has less than one request are left out."""
    good = [figures(row) for row in measured(facts) if is_success(row)]
    size, rest = divmod(len(good), NUM_BATCHES)
    if not size:
        return {}
    ends = [size * number + min(number, rest) for number in range(NUM_BATCHES + 1)]
    whole = values(good, TIMES)
    parts = [values(good[begin:end], TIMES) for begin, end in pairwise(ends)]
    found = {}
    for name in TIMES:
        ordered, all_values = [ascending(part[name]) for part in parts], ascending(whole[name])
        for statistic in STATISTICS:
            percent = PERCENTS[statistic]
            if min(map(len, ordered)) and size * (100.0 - percent) >= 100.0:
                value = percentile(all_values, percent)
                half = _half([percentile(part, percent) for part in ordered])
                found[f"{name}.{statistic}"] = _around(value, half, NOT_NEGATIVE)
    return found


def _around(value: float, half: float, within: Range, num_runs: int = 1) -> Estimate:
    """The one place where an interval gets its ends."""
    low, high = max(value - half, within.least), min(value + half, within.most)
    return Estimate(value=value, low=min(low, value), high=max(high, value), num_runs=num_runs)


def _half(found: Sequence[float], mean: float | None = None) -> float:
    """Half the interval of the mean of at least two values."""
    middle = math.fsum(found) / len(found) if mean is None else mean
    variance = math.fsum((value - middle) ** 2 for value in found) / (len(found) - 1)
    return student_t(len(found)) * math.sqrt(variance / len(found))
