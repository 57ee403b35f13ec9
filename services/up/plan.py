"""Which processes a deployment on one machine has, and with which command lines they start. Decides, starts nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from baton.core.ids import Role
from baton.services.runtime.cores import cores_text, split_cores
from baton.services.runtime.settings import SettingsInvalid

LAUNCHER_NAME = "launcher"


class UpOptions(NamedTuple):
    """What `baton up` was asked for."""

    model: Path
    num_prefill: int = 1
    num_decode: int = 1
    num_unified: int = 0
    host: str = "127.0.0.1"
    port: int = 8000
    cores: tuple[int, ...] = ()  #: for executors
    device: str = "cpu"
    journal: Path | None = None
    config: Path | None = None


class ChildPlan(NamedTuple):
    """One process: `command` lacks only what changes with each life, the epoch."""

    name: str
    role: Role
    command: tuple[str, ...]


def check_counts(num_prefill: int, num_decode: int, num_unified: int) -> None:
    """Raises SettingsInvalid where these executors could answer no request."""
    for flag, count in (("prefill", num_prefill), ("decode", num_decode), ("unified", num_unified)):
        if count < 0:
            raise SettingsInvalid(f"--{flag} {count}: a number of executors, at least 0")
        if count == 0 and num_unified == 0 and flag != "unified":
            raise SettingsInvalid(f"--{flag} 0: without a {flag} executor nothing is answered, unless with --unified")


def plan_children(options: UpOptions, run_folder: Path, parent_pid: int) -> list[ChildPlan]:
    """In the order of starting; stopping goes the other way."""
    executors = [
        *(f"prefill{index}" for index in range(options.num_prefill)),
        *(f"decode{index}" for index in range(options.num_decode)),
        *(f"unified{index}" for index in range(options.num_unified)),
    ]
    cores = split_cores(options.cores, len(executors)) if executors else []
    children = [_child("scheduler", Role.SCHEDULER, options, run_folder, parent_pid, ())]
    for name, own_cores in zip(executors, cores, strict=True):
        role = Role[name.rstrip("0123456789").upper()]
        flags = ("--cores", cores_text(own_cores), "--device", options.device, "--model", str(options.model))
        children.append(_child(name, role, options, run_folder, parent_pid, flags))
    front = ("--host", options.host, "--port", str(options.port), "--model", str(options.model))
    children.append(_child("router", Role.ROUTER, options, run_folder, parent_pid, front))
    return children


def control_endpoint(run_folder: Path, name: str) -> str:
    return f"ipc://{run_folder}/{name}"


def _child(
    name: str, role: Role, options: UpOptions, run_folder: Path, parent_pid: int, flags: tuple[str, ...]
) -> ChildPlan:
    command = [sys.executable, "-P", "-m", f"baton.services.{role.name.lower()}", "--name", name]
    command += ["--keys", str(run_folder / "keys"), "--run-folder", str(run_folder), "--parent-pid", str(parent_pid)]
    command += ["--scheduler", control_endpoint(run_folder, "scheduler")]
    if role is not Role.ROUTER:
        command += ["--listen", control_endpoint(run_folder, name)]
    if options.journal is not None:
        command += ["--journal-folder", str(options.journal)]
    if options.config is not None:
        command += ["--config", str(options.config)]
    return ChildPlan(name, role, (*command, *flags))
