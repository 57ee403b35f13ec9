"""A scenario as a file of TOML: a fleet, its knobs, its load and its seed, all of it fixed in the file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.file_errors import BadFile, what_and_field
from baton.core.ids import Role
from baton.core.knob_effects import in_vain, without_effect
from baton.core.sim.fleet_run.spec import ExecutorGroup, FleetSpec, Wires, parse_topology
from baton.core.sim.step_time.profile import Profile, load_profile

FOLDER = "baton.core.sim.scenarios"
ROLE_NAMES = {Role.PREFILL: "prefill", Role.DECODE: "decode", Role.UNIFIED: "unified"}

Config = TypeVar("Config", ExecutorConfig, SchedulerConfig, RouterConfig)


class BadScenario(BadFile):
    """The file is no scenario. Says the file or scenario, and the field if it is one."""


class PlannedAsk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of a scenario that names each of its own."""

    at_s: float
    input_tokens: int
    output_tokens: int


class RunScenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tables of knobs are those of `core/config.py`; `load` is what `baton bench` may be asked for."""

    name: str
    title: str = ""
    source: str = ""  #: whose figures it is compared with, and where each parameter comes from
    topology: str
    profile: str = ""  #: of all executors
    profiles: dict[str, str] = {}  #: by role, where they differ
    block_size: int = 64
    max_model_len: int = 131072
    kv_tokens: int = 0  #: that each executor can hold; 0: what its profile says
    num_routers: int = 1
    one_machine: bool = False  #: all executors are on one: steps slow each other down by profiles' neighbour_slowdown
    tells_progress: bool = False  #: devices say what of a prompt's KV is written before a step ends, as on the CPU
    timeout_s: float = 3600.0
    executor: dict[str, Any] = {}  #: knobs of all executors, each where it has an effect
    prefill: dict[str, Any] = {}  #: of one role: these go before the ones of all
    decode: dict[str, Any] = {}
    unified: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    router: dict[str, Any] = {}
    wires: Wires = Wires()
    load: dict[str, Any] = {}
    asks: tuple[PlannedAsk, ...] = ()  #: in place of a load
    slo: str = ""
    seed: int = 0
    seeds: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1  #: runs, each with the next seed: figures get intervals
    parts: str = ""  #: `module:name` of what is to run in place of ours
    parts_settings: dict[str, Any] = {}

    def fleet(self) -> FleetSpec:
        """Raises ServingError that names what is wrong."""
        groups = tuple(self._group(role, count) for role, count in parse_topology(self.topology))
        first = groups[0].profile
        if any(group.profile.kv != first.kv for group in groups):
            raise BadScenario(self.name, "the executors keep KV of different geometry", "profiles")
        return FleetSpec(
            groups=groups,
            layout=first.kv.layout(self.block_size, first.name),
            max_model_len=self.max_model_len,
            scheduler=self.config("scheduler", SchedulerConfig, self.scheduler),
            router=self.config("router", RouterConfig, self.router),
            wires=self.wires,
            num_routers=self.num_routers,
            timeout_s=self.timeout_s,
            tells_progress=self.tells_progress,
            one_machine=self.one_machine,
        )

    def _group(self, role: Role, count: int) -> ExecutorGroup:
        profile = self.profile_of(role)
        num_blocks = (self.kv_tokens or profile.kv_tokens) // self.block_size
        if num_blocks < 2:
            raise BadScenario(self.name, f"{num_blocks} blocks, at least 2 are needed", "kv_tokens")
        config = self.executor_knobs(role)[0]
        return ExecutorGroup(role=role, count=count, profile=profile, config=config, num_blocks=num_blocks)

    def executor_knobs(self, role: Role) -> tuple[ExecutorConfig, dict[str, str]]:
        """Of a role; and those of all executors without effect on it, as they have on some other role, with what each
        lacks. Raises BadScenario."""
        own = getattr(self, ROLE_NAMES[role])
        common = {knob: value for knob, value in self.executor.items() if knob not in own}
        dropped: dict[str, str] = {}
        while True:
            config = self.config(ROLE_NAMES[role], ExecutorConfig, common | own)
            knob, lacks = in_vain(config, role)
            if not knob:
                return config, dropped
            if knob not in common:
                raise BadScenario(self.name, without_effect(config, role), ROLE_NAMES[role])
            dropped[knob] = lacks
            del common[knob]

    def profile_of(self, role: Role) -> Profile:
        """Raises BadProfile or BadScenario."""
        unknown = set(self.profiles) - set(ROLE_NAMES.values())
        if unknown:
            raise BadScenario(self.name, f"none of {', '.join(ROLE_NAMES.values())}", f"profiles.{min(unknown)}")
        name = self.profiles.get(ROLE_NAMES[role], self.profile)
        if not name:
            raise BadScenario(self.name, f"no profile of {ROLE_NAMES[role]} executors", "profile")
        return load_profile(name)

    def config(self, table: str, kind: type[Config], knobs: dict[str, Any]) -> Config:
        """Of one table of knobs. Raises BadScenario."""
        known = kind.__struct_fields__
        for knob in knobs:
            if knob not in known:
                raise BadScenario(self.name, f"there is no such knob{near(knob, known)}", f"{table}.{knob}")
        try:
            config = msgspec.convert(knobs, kind, strict=False)
            config.validate()
        except (msgspec.ValidationError, ValueError) as error:
            raise BadScenario(self.name, str(error), table) from error
        return config


def built_in() -> list[str]:
    """Names of the scenarios that ship with the package."""
    return sorted(e.name.removesuffix(".toml") for e in files(FOLDER).iterdir() if e.name.endswith(".toml"))


def read_scenario(name: str) -> dict[str, Any]:
    """One of the package's by its name, or a file by its path, as a table to which settings may be added. Raises
    BadScenario."""
    known = built_in()
    try:
        data = (files(FOLDER) / f"{name}.toml").read_bytes() if name in known else Path(name).read_bytes()
        table = tomllib.loads(data.decode())
    except OSError as error:
        close = near(name, known) or f"; there are {', '.join(known)}"
        raise BadScenario(name, f"no scenario of this name and no file: {error.strerror}{close}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadScenario(name, f"no TOML: {error}") from error
    table.setdefault("name", Path(name).stem)
    return table


def set_value(table: dict[str, Any], setting: str) -> None:
    """`table.knob=value` or `field=value`, as on a command line. Raises BadScenario."""
    path, equals, value = setting.partition("=")
    *outer, last = path.strip().split(".")
    if not equals or not last or len(outer) > 1:
        raise BadScenario("set", f"{setting!r} is not knob=value, such as decode.num_slots=64")
    inner = table
    for part in outer:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise BadScenario("set", f"{part} is no table of knobs", path.strip())
    inner[last] = value.strip()


def make_scenario(table: dict[str, Any]) -> RunScenario:
    """Raises BadScenario."""
    name = str(table.get("name", "scenario"))
    _check_names(name, "", table, RunScenario)
    if isinstance(wires := table.get("wires"), Mapping):
        _check_names(name, "wires.", wires, Wires)
    try:
        return msgspec.convert(table, RunScenario, strict=False)
    except msgspec.ValidationError as error:
        raise BadScenario(name, *what_and_field(error)) from error


def _check_names(name: str, outer: str, table: Mapping[str, Any], kind: type[msgspec.Struct]) -> None:
    known = kind.__struct_fields__
    for field in table:
        if field not in known:
            raise BadScenario(name, f"there is no such field{near(field, known)}", f"{outer}{field}")


def near(word: str, known: Iterable[str]) -> str:
    """What to add to the word that it is not known: the nearest one that is, if there is one."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; is {close[0]} meant?" if close else ""
