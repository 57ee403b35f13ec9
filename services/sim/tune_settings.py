"""The settings file of a deployment like a simulated one, and the command that starts it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from baton.core.config import SchedulerConfig
from baton.core.ids import Role
from baton.core.knob_effects import lacking
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.services.runtime.settings import Settings, load_settings

#: what `baton up` says to each process besides
_OF_UP = {"link": {"keys": "keys", "scheduler": "tcp://127.0.0.1:1"}, "model": {"folder": "model"}}


def config_text(fleet: FleetSpec, comment: str) -> str:
    """TOML: every knob of the fleet that is not at its default and has an effect, and the size of a block. `comment` is
    one line."""
    sections: dict[str, dict[str, Any]] = {"device": {"block_size": fleet.block_size}}
    sections["scheduler"] = changed(scheduler_of(fleet))
    sections["router"] = changed(fleet.router)
    for group in fleet.groups:
        sections[group.role.name.lower()] = changed(group.config)
    lines = [f"# {comment}", f"# {command(fleet)}"]
    for name, knobs in sections.items():
        if knobs:
            lines += ["", f"[{name}]", *(f"{knob} = {_toml(value)}" for knob, value in knobs.items())]
    return "\n".join(lines) + "\n"


def scheduler_of(fleet: FleetSpec) -> SchedulerConfig:
    """As `baton up` takes it: without knobs that lack an executor to have an effect on."""
    config, counts = fleet.scheduler, {group.role: group.count for group in fleet.groups}
    vain = {knob: default for knob, default in _defaults(config).items() if lacking("scheduler", knob, counts)}
    if "local_prompt_tokens" in vain and config.placement == "by_tokens":
        vain["placement"] = "always_pd"  # which says the same where no prompt can be computed on a decode executor
    return msgspec.structs.replace(config, **vain)


def command(fleet: FleetSpec) -> str:
    """`baton up` with as many executors; MODEL stands for what is served."""
    counts = {group.role: group.count for group in fleet.groups}
    roles = {"prefill": Role.PREFILL, "decode": Role.DECODE, "unified": Role.UNIFIED}
    numbers = " ".join(f"--{name} {counts.get(role, 0)}" for name, role in roles.items())
    return f"baton up --model MODEL {numbers} --config tune.toml"


def check_config(text: str, fleet: FleetSpec) -> dict[Role, Settings]:
    """As each process would read it. Raises SettingsInvalid."""
    with tempfile.TemporaryDirectory(prefix="baton-tune-") as folder:
        file = Path(folder) / "tune.toml"
        file.write_text(text, encoding="utf-8")
        roles = [Role.SCHEDULER, Role.ROUTER, *(group.role for group in fleet.groups)]
        return {role: load_settings(role, file, {}, _flags(role)) for role in roles}


def changed(config: msgspec.Struct) -> dict[str, Any]:
    """Fields that are not at their defaults."""
    return {knob: value for knob, default in _defaults(config).items() if (value := getattr(config, knob)) != default}


def _defaults(config: msgspec.Struct) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(config)}


def _flags(role: Role) -> dict[str, dict[str, Any]]:
    wanted = {
        Role.SCHEDULER: {"link": {"keys": "keys"}},
        Role.ROUTER: _OF_UP,
    }
    return wanted.get(role, _OF_UP)


def _toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()
