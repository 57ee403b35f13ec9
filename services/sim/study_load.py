"""What of a load a study varies, and what is little of it for a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from baton.core.sim.fleet_run.scenario_file import RunScenario, make_scenario
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.step_time.features import Features
from baton.core.sim.step_time.model import StepModel, StepUnknown
from baton.services.loadgen.arrivals import ArrivalKind
from baton.services.loadgen.plan import Plan
from baton.services.sim.load import load_of
from baton.services.sim.results import settings_of
from baton.services.sim.run_flags import BadCommand

LIGHT_SHARE = 0.5  #: of the executors would serve one request at a time each


class Axis(NamedTuple):
    """What is varied."""

    knob: str  #: of the load
    unit: str


REQUESTS, SESSIONS = Axis("rate", "requests/s"), Axis("rate", "sessions/s")
SPEED = Axis("speed", "× the trace's speed")


def axis_of(table: Mapping[str, Any]) -> Axis:
    """Raises BadCommand for a load that has no rate to vary."""
    load = table.get("load") or {}
    if table.get("asks") or not isinstance(load, Mapping) or not load:
        raise BadCommand("load: the rate is varied, so --trace, --synthetic or a [load] must be there")
    arrivals = str(load.get("arrivals", ArrivalKind.AUTO))
    if arrivals in (ArrivalKind.CLOSED, ArrivalKind.BURST):
        raise BadCommand(f"load.arrivals: {arrivals} has no rate to vary")
    if load.get("concurrency") and not load.get("rate") and arrivals in (ArrivalKind.AUTO, ArrivalKind.TRACE):
        raise BadCommand("load.concurrency: a closed loop has no rate to vary; rate=… in its place")
    if load.get("trace") and arrivals in (ArrivalKind.AUTO, ArrivalKind.TRACE) and not load.get("rate"):
        return SPEED
    return SESSIONS if load.get("turns") or load.get("num_sessions") else REQUESTS


def at_rate(table: Mapping[str, Any], axis: Axis, rate: float, seed: int) -> dict[str, Any]:
    """The scenario's table with another rate and seed."""
    return {**table, "load": {**table["load"], axis.knob: rate}, "seed": seed, "seeds": 1}


def fixed_settings(scenario: RunScenario, axis: Axis) -> dict[str, Any]:
    """Of a scenario, what is the same in all runs."""
    return {name: value for name, value in settings_of(scenario).items() if name != f"load.{axis.knob}"}


def light_rate(table: Mapping[str, Any], axis: Axis, fleet: FleetSpec) -> float:
    """At which half of the executors would be enough if each served one request at a time. Raises ServingError."""
    plan = load_of(make_scenario(at_rate(table, axis, 1.0, int(table.get("seed", 0))))).plan
    longest_s = max(_alone_s(group.profile.steps, plan) for group in fleet.groups)
    executors = sum(group.count for group in fleet.groups)
    return LIGHT_SHARE * executors / longest_s / _requests_per_s(plan)


def _alone_s(steps: StepModel, plan: Plan) -> float:
    """What the mean request takes with an executor for itself."""
    count = len(plan.requests)
    num_input = sum(request.num_input_tokens for request in plan.requests) // count or 1
    num_output = sum(request.max_tokens for request in plan.requests) / count
    prompt = Features(tokens=num_input, attention=num_input**2 / 2, prompts=1, rows=1)
    decode = Features(decodes=1, context=num_input, rows=1)
    try:
        return steps.duration_s(prompt) + num_output * steps.duration_s(decode)
    except StepUnknown as error:
        raise BadCommand(f"profile: {error}") from error


def _requests_per_s(plan: Plan) -> float:
    """Of the plan: those that begin something bring the ones that follow them."""
    starts = [request.at_s for request in plan.requests if request.at_s is not None and request.after is None]
    if len(starts) < 2 or max(starts) <= min(starts):
        raise BadCommand("load: it has no rate to vary: fewer than two requests, or all at once")
    return (len(starts) - 1) / (max(starts) - min(starts)) * len(plan.requests) / len(starts)
