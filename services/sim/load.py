"""From the plan of a load, as the load generator makes it, to what the clients of a performance run ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from baton.core.metrics.facts import Phase
from baton.core.sim.fleet_run.clients import MakeSchedule
from baton.core.sim.fleet_run.request import BLOCKS, GROUPS, SimRequest, Span, text_tokens, token_of
from baton.core.sim.fleet_run.scenario_file import BadScenario, RunScenario, near
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.services.loadgen.build import build_plan
from baton.services.loadgen.load_errors import NoTimes
from baton.services.loadgen.load_settings import LoadSettings
from baton.services.loadgen.plan import NEVER, Plan, PlannedRequest, phases
from baton.services.loadgen.worker_schedule import Schedule, opening_times

#: of a load: they choose words or only matter to a server that is asked
WITHOUT_EFFECT = ("content", "tokenizer", "first_token_id", "end_token_id", "mark_texts", "repeatable")


IDLE_S = 60.0  #: without anything due: a gap
MANY_HEARTBEATS = 50_000  #: each is some five events


class SimLoad(NamedTuple):
    plan: Plan
    requests: list[SimRequest]
    phases: list[MakeSchedule]


def load_of(scenario: RunScenario) -> SimLoad:
    """Raises ServingError that names what is wrong."""
    try:
        plan = _asked(scenario) if scenario.asks else build_plan(load_settings(scenario))
    except NoTimes as error:
        what = f"{error.trace} has no times of its own: --set load.rate=… or --set load.concurrency=… gives some"
        raise BadScenario(scenario.name, what, "load") from error
    return SimLoad(plan, [_request(request) for request in plan.requests], _phases(plan))


def load_settings(scenario: RunScenario) -> LoadSettings:
    """Raises BadScenario, which names the field."""
    known = LoadSettings.__struct_fields__
    told: dict[str, Any] = {"seed": scenario.seed} | scenario.load
    for name in told:
        if name not in known or name in WITHOUT_EFFECT:
            what = f"there is no such setting of a load{near(name, known)}"
            what = "has no effect in a simulation" if name in WITHOUT_EFFECT else what
            raise BadScenario(scenario.name, what, f"load.{name}")
    try:
        return msgspec.convert(told, LoadSettings, strict=False)
    except msgspec.ValidationError as error:
        raise BadScenario(scenario.name, str(error), "load") from error


def idle_time(plan: Plan, fleet: FleetSpec) -> str:
    """In one line, that a load has so much time without anything due that its heartbeats will take long to simulate;
    empty for other loads. Requests that wait for others' ends may fill some of that time."""
    times = sorted(request.at_s for request in plan.requests if request.at_s is not None)
    gaps = [gap for first, second in pairwise(times) if (gap := second - first) >= IDLE_S]
    heartbeats = 2 * fleet.num_sessions * sum(gaps) / fleet.heartbeat_s
    if heartbeats < MANY_HEARTBEATS:
        return ""
    return (
        f"for {sum(gaps):,.0f} s of the load nothing is due (once for {max(gaps):,.0f} s); idle time is simulated, "
        f"too, with some {heartbeats:,.0f} heartbeats: a higher load.rate or load.speed leaves less of it"
    )


def _asked(scenario: RunScenario) -> Plan:
    if scenario.load:
        raise BadScenario(scenario.name, "a load or asks, not both", "asks")
    requests = tuple(
        PlannedRequest(index=index, at_s=ask.at_s, num_input_tokens=ask.input_tokens, max_tokens=ask.output_tokens)
        for index, ask in enumerate(scenario.asks)
    )
    return Plan(requests=requests, seed=scenario.seed)


def _phases(plan: Plan) -> list[MakeSchedule]:
    return [
        partial(_schedule, plan, tuple(request for request in plan.requests if request.phase is phase))
        for phase in phases(plan.requests)
    ]


def _schedule(plan: Plan, requests: tuple[PlannedRequest, ...], start_s: float, ended: Mapping[int, float]) -> Schedule:
    places = opening_times(plan.concurrency, plan.ramp_s, start_s) if plan.concurrency else None
    return Schedule(requests, start_s, places, ended)


def _request(planned: PlannedRequest) -> SimRequest:
    text = text_tokens(planned.text or planned.messages_json)
    spans = [Span(token_of(GROUPS, prefix.group), 1, prefix.num_tokens) for prefix in planned.prefixes]
    spans += [Span(token_of(BLOCKS, run.first), run.count, planned.block_size) for run in planned.blocks]
    return SimRequest(
        index=planned.index,
        num_input_tokens=len(text) // 4 or planned.num_input_tokens,
        num_output_tokens=planned.max_tokens,
        spans=tuple(spans),
        text=text,
        repeats=planned.after if planned.is_next_message else None,
        cancel_after_s=None if planned.cancel_after_s == NEVER else planned.cancel_after_s,
        session=planned.session,
        turn=planned.turn,
        is_measured=planned.phase is Phase.MEASURED,
        is_due_by_plan=planned.is_due_by_plan,
    )
