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
    host: str = ""  #: the router's own default (or the file's) if empty; so for what follows
    port: int | None = None
    cores: tuple[int, ...] = ()  #: for executors
    device: str = ""
    journal: Path | None = None
    config: Path | None = None
    placement: str = ""
    strict_pd: bool = False  #: adds to what the file says

    @property
    def counts(self) -> dict[Role, int]:
        """Executors of each role."""
        return {Role.PREFILL: self.num_prefill, Role.DECODE: self.num_decode, Role.UNIFIED: self.num_unified}


class ChildPlan(NamedTuple):
    """One process: its command line lacks only what changes with each life, the epoch."""

    name: str
    role: Role
    program: tuple[str, ...]
    flags: tuple[str, ...] = ()


MAX_EXECUTORS = 256  #: of a kind: each is a process of this machine


def check_counts(num_prefill: int, num_decode: int, num_unified: int) -> None:
    """Raises SettingsInvalid where these executors could answer no request, whatever the settings are."""
    for flag, count in (("prefill", num_prefill), ("decode", num_decode), ("unified", num_unified)):
        if not 0 <= count <= MAX_EXECUTORS:
            raise SettingsInvalid(f"--{flag} {count}: a number of executors, from 0 to {MAX_EXECUTORS}")
    if num_decode == num_unified == 0:
        raise SettingsInvalid("--decode 0: without a decode executor nothing is answered, unless with --unified")


def check_strict(options: UpOptions, strict_pd: bool) -> None:
    """`strict_pd` is the scheduler's, from wherever it was told. Raises SettingsInvalid where it lets no executor of
    these compute a prompt; without it decode executors do (R2)."""
    if strict_pd and options.num_prefill == options.num_unified == 0:
        raise SettingsInvalid(
            "--prefill 0: with strict_pd nothing is answered without a prefill executor, unless with --unified"
        )


def plan_children(options: UpOptions, run_folder: Path, parent_pid: int) -> list[ChildPlan]:
    """In the order of starting; stopping goes the other way."""
    executors = [
        *(f"prefill{index}" for index in range(options.num_prefill)),
        *(f"decode{index}" for index in range(options.num_decode)),
        *(f"unified{index}" for index in range(options.num_unified)),
    ]
    cores = split_cores(options.cores, len(executors)) if executors else []
    placing = (*_given("--placement", options.placement), *_given("--strict-pd", "true" if options.strict_pd else ""))
    children = [_child("scheduler", Role.SCHEDULER, options, run_folder, parent_pid, placing)]
    for name, own_cores in zip(executors, cores, strict=True):
        role = Role[name.rstrip("0123456789").upper()]
        flags = ("--cores", cores_text(own_cores), *_given("--device", options.device))
        children.append(_child(name, role, options, run_folder, parent_pid, flags))
    front = (*_given("--host", options.host), *_given("--port", "" if options.port is None else str(options.port)))
    children.append(_child("router", Role.ROUTER, options, run_folder, parent_pid, front))
    return children


def control_endpoint(run_folder: Path, name: str) -> str:
    return f"ipc://{run_folder}/{name}"


def _child(
    name: str, role: Role, options: UpOptions, run_folder: Path, parent_pid: int, flags: tuple[str, ...]
) -> ChildPlan:
    program = (sys.executable, "-P", "-m", f"baton.services.{role.name.lower()}")
    common = ["--name", name, "--keys", str(run_folder / "keys")]
    common += ["--run-folder", str(run_folder), "--parent-pid", str(parent_pid)]
    if role is not Role.ROUTER:
        common += ["--listen", control_endpoint(run_folder, name)]
    if role is not Role.SCHEDULER:
        common += ["--scheduler", control_endpoint(run_folder, "scheduler"), "--model", str(options.model)]
    if options.journal is not None:
        common += ["--journal-folder", str(options.journal)]
    if options.config is not None:
        common += ["--config", str(options.config)]
    return ChildPlan(name, role, program, (*common, *flags))


def _given(flag: str, value: str) -> tuple[str, ...]:
    return (flag, value) if value else ()
