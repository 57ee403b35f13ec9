"""C12: what a scenario is told in vain, since its fleet has nobody on whom it would have an effect."""

from __future__ import annotations

from msgspec.structs import fields

from baton.core.config import SchedulerConfig
from baton.core.ids import Role
from baton.core.knob_effects import lacking
from baton.core.sim.fleet_run.scenario_file import ROLE_NAMES, RunScenario
from baton.core.sim.fleet_run.spec import parse_topology


def told_in_vain(scenario: RunScenario) -> dict[str, str]:
    """Path of a field or knob, as `--set` has it → what the fleet lacks. Raises ServingError."""
    counts = dict(parse_topology(scenario.topology))
    found = _executors_knobs(scenario, list(counts))
    for name in ROLE_NAMES.values():
        if why := lacking(name, "", counts):
            found |= {f"{name}.{knob}": why for knob in getattr(scenario, name)}
            found[f"profiles.{name}"] = why
    config = scenario.config("scheduler", SchedulerConfig, scenario.scheduler)
    for knob in fields(config):
        if getattr(config, knob.name) != knob.default and (why := lacking("scheduler", knob.name, counts)):
            found[f"scheduler.{knob.name}"] = why
    if scenario.tells_progress and (why := lacking(ROLE_NAMES[Role.PREFILL], "", counts)):
        found["tells_progress"] = why
    return found


def _executors_knobs(scenario: RunScenario, roles: list[Role]) -> dict[str, str]:
    """Those of all executors that none of them takes."""
    dropped = [scenario.executor_knobs(role)[1] for role in roles]
    taken_by_none = [knob for knob in dropped[0] if all(knob in each for each in dropped)]
    return {f"executor.{knob}": dropped[0][knob] for knob in taken_by_none}
