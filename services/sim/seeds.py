"""Runs that differ by their seed alone, and what that says of a scenario's figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from baton.core.metrics.intervals import headline
from baton.core.metrics.summary import summarize
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import RunScenario
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.services.loadgen.bench_settings import slo_of
from baton.services.loadgen.plan import Plan
from baton.services.sim.load import SimLoad, load_of


class Simulate(Protocol):
    """One run; `label` says which of several. Raises ServingError, Violation, StepUnknown."""

    def __call__(self, scenario: RunScenario, load: SimLoad, *, label: str) -> FleetRun: ...


def figures_of(scenario: RunScenario, run: FleetRun) -> dict[str, float]:
    """The headline figures of one run, by the names of `core/metrics/intervals.py`."""
    return headline(summarize(run.facts, slo_of(scenario.slo)))


def depends_on_seed(scenario: RunScenario, fleet: FleetSpec, plan: Plan) -> bool:
    """Whether its runs differ by their seed: the load is drawn, or the residuals of steps are. A trace at its own times
    and steps without residuals are the same under each; parts that stand in place of ours may draw what they like.
    Raises ServingError."""
    if scenario.parts or any(group.profile.steps.is_noisy for group in fleet.groups):
        return True
    other = load_of(msgspec.structs.replace(scenario, seed=scenario.seed + 1)).plan
    return msgspec.structs.replace(other, seed=plan.seed) != plan


def other_seeds(scenario: RunScenario, simulate: Simulate) -> Iterator[dict[str, float]]:
    """The headline figures of the scenario's further runs, one after the other: seed + 1, seed + 2 … Of each the load
    is drawn anew, unless it is a trace or has a seed of its own, and so are the residuals of steps."""
    for number in range(1, scenario.seeds):
        each = msgspec.structs.replace(scenario, seed=scenario.seed + number)
        yield figures_of(each, simulate(each, load_of(each), label=f"seed {number + 1} of {scenario.seeds}"))
