"""What is kept of one performance run of a study: its figures, how far they move within the run, and the facts that
explain them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from baton.core.metrics.definitions import figures, is_success
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import Slo, keeps
from baton.core.metrics.intervals import NUM_BATCHES, Estimate, headline, within_run
from baton.core.metrics.summary import measured, summarize
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.study.uses import RoleUse, TokenTimes, Waits, token_times, uses_of, waits_of

SHARE = "share"  #: of the requests that kept the SLO
DUE = "due_per_s"  #: requests that were due per second
GOOD = "good_per_s"  #: the product of both
EXECUTOR_S = "executor_s_per_1000_good_tokens"
BURST = 0.25  #: of a run: while its requests come in less, a higher rate hardly changes when they come
COST = "cost_per_million_tokens"  #: in the money of the profiles' prices, of the output tokens of all successes


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One run, small enough to be sent between processes and kept by the hundred."""

    figures: dict[str, float]  #: the names above and those of `intervals.headline`; what is undefined is not there
    within: dict[str, Estimate]  #: percentiles of times, with the interval that the run alone tells
    share_by_part: tuple[float, ...]  #: `SHARE` of the run's consecutive parts. Empty: it is too short
    attainment: dict[str, float]  #: share that kept each bound of the SLO
    uses: dict[str, RoleUse]  #: by the role's name
    waits: Waits
    tokens: TokenTimes
    arriving: float  #: share of the run in which requests came that follow no other one
    num_requests: int


def measure(run: FleetRun, fleet: FleetSpec, slo: Slo) -> Measured:
    """`slo` has a bound. Raises InvariantViolated for facts that tell of a request twice."""
    summary = summarize(run.facts, slo)
    found = headline(summary)
    rows = measured(run.facts)
    is_good = [is_success(row) and keeps(figures(row), slo) for row in rows]
    due = due_per_s(rows) or summary.throughput.requests_per_s
    if due and summary.goodput is not None and summary.goodput.share is not None:
        found |= {SHARE: summary.goodput.share, DUE: due, GOOD: summary.goodput.share * due}
    good_tokens = sum(row.num_output_tokens for row, good in zip(rows, is_good, strict=True) if good)
    executors = sum(group.count for group in fleet.groups)
    if good_tokens:
        found[EXECUTOR_S] = executors * summary.span.length_s / good_tokens * 1000
    price, tokens = price_per_hour(fleet), summary.throughput.output_tokens_per_s
    if price is not None and tokens:
        found[COST] = price / 3600 / tokens * 1e6
    return Measured(
        figures=found,
        within=within_run(run.facts),
        share_by_part=_by_part(is_good),
        attainment={} if summary.goodput is None else summary.goodput.attainment,
        uses=uses_of(run, fleet),
        waits=waits_of(run),
        tokens=token_times(run.recorder.steps, slo.itl_s),
        arriving=_arriving(rows, summary.span.length_s),
        num_requests=len(rows),
    )


def due_per_s(rows: Sequence[RequestFacts]) -> float:
    """Between the first and the last that were due: the time after it, in which a short run only ends what it began, is
    no part of it. 0 where all came at once."""
    times = [row.scheduled_s for row in rows]
    length_s = max(times) - min(times) if times else 0.0
    return (len(times) - 1) / length_s if length_s else 0.0


def is_burst(runs: Sequence[Measured]) -> bool:
    """Whether runs under one load tell nothing more of its rate: it is too small, and comes as one burst, beside which
    the time that its requests take is long. Half as high a rate again would make the run at most a twelfth shorter."""
    return sum(run.arriving for run in runs) < BURST * len(runs)


def _arriving(rows: Sequence[RequestFacts], length_s: float) -> float:
    times = [row.scheduled_s for row in rows if row.is_due_by_plan]
    return (max(times) - min(times)) / length_s if times and length_s else 0.0


def price_per_hour(fleet: FleetSpec) -> float | None:
    """Of all executors; None where a profile says no price."""
    prices = [group.profile.price_per_hour * group.count for group in fleet.groups]
    return math.fsum(prices) if all(prices) else None


def _by_part(is_good: Sequence[bool]) -> tuple[float, ...]:
    if len(is_good) < 2 * NUM_BATCHES:
        return ()
    size = len(is_good) / NUM_BATCHES
    ends = [round(size * number) for number in range(NUM_BATCHES + 1)]
    return tuple(sum(is_good[begin:end]) / (end - begin) for begin, end in pairwise(ends))
