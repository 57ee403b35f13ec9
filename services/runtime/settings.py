"""What a service is told at its start: a TOML file, `BATON_SECTION_KEY` variables over it, flags over both.

Every key belongs to a section; a key that no section knows is an error that names it. The result is frozen.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.errors import ServingError
from baton.core.ids import Role
from baton.core.knob_effects import contradiction
from baton.services.router.config import HttpConfig
from baton.services.runtime.effects import told_in_vain
from baton.services.runtime.ranges import check_ranges
from baton.services.runtime.secret import Secret, decode_secret, encode_secret
from baton.services.transport.endpoints import EndpointRefused, check_dialed, is_local

SCHEDULER_ENDPOINT = "tcp://127.0.0.1:8100"


class SettingsInvalid(ServingError):
    """A setting that does not exist, does not parse, or contradicts another."""


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The process itself."""

    name: str = ""  #: unique in the deployment, its key's name, begins with the role's; the role's itself if empty
    epoch: int = 0  #: grows with each life of this name; milliseconds since 1970 if 0
    admin_port: int = 0  #: loopback port of /health, /ready, /metrics, /trace; chosen by the system if 0
    run_folder: str = ""  #: NAME.json with the process's addresses is written there once it serves
    journal_folder: str = ""  #: every event and command is written there
    trace_events: int = 20_000  #: what happened last and `baton trace` can show, in memory; 0: nothing is kept
    drain_timeout_s: float = 30.0  #: how long a stop waits for what runs
    parent_pid: int = 0  #: the process ends with this parent


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Control links."""

    keys: str = ""  #: folder made by `baton keys`
    listen: str = ""  #: where others dial in; loopback if empty
    advertise: str = ""  #: how others reach `listen`, where that differs
    scheduler: str = SCHEDULER_ENDPOINT  #: where the scheduler listens
    scheduler_name: str = "scheduler"  #: the name of its key
    heartbeat_s: float = 1.0  #: how often each side of a link says that it lives
    silence_s: float = 3.5  #: a link that is silent for so long is lost
    queued_frames: int = 16384  #: in each direction of each link; a router's must hold all its attempts twice


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The model folder, as `baton model fetch` makes it."""

    folder: str = ""  #: with a `baton.json`; only a fake device does without one


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What computes, and how much of the machine it may use."""

    kind: str = "cpu"  #: cpu or fake
    cores: str = ""  #: such as 0-1,3; all if empty
    num_ranks: int = 1  #: cpu: processes that share the model (tensor parallel); must divide its heads and MLP columns
    rank_timeout_s: float = 30.0  #: cpu: a rank that does not come within so long ends the group
    overlap: str = "shared"  #: step_mode = overlap: prompts' steps on the same cores (shared) or own ones (partitioned)
    prefill_cores: int = 0  #: overlap = partitioned: so many of the cores are for prompts' steps; half of them if 0
    block_size: int = 64  #: tokens per KV block
    num_blocks: int = 0  #: KV blocks; from `kv_bytes` if 0
    kv_bytes: int = 1 << 30  #: memory for KV, of each rank, where `num_blocks` is 0
    dtype: str = ""  #: of weights and KV; the device's own choice if empty
    max_model_len: int = 0  #: tokens of one sequence; the model's own bound if 0
    step_time_s: float = 0.0  #: fake: how long a step lasts at least
    token_time_s: float = 0.0  #: fake: and for each of its tokens
    end_one_in: int = 0  #: fake: an answer ends about once in so many tokens; 0: never by itself
    checks_memory: bool = True  #: fake: steps read and write all KV that a model would; without it they take no time
    fail_one_piece_in: int = 0  #: fake: every so-many-th write of KV fails; 0: none
    piece_delay_s: float = 0.0  #: fake: every write of KV is posted so much later


class HttpSettings(HttpConfig, frozen=True, kw_only=True):
    """The router's public side."""

    served_names: tuple[str, ...] = ()  #: the model folder's name if empty
    host: str = "127.0.0.1"  #: where the HTTP API listens; another one than loopback lets other machines in
    port: int = 8000  #: of the HTTP API; any free one if 0
    api_keys_file: str = ""  #: one key a line with its limits; no keys, no authentication
    api_keys: Secret | None = None  #: the same lines themselves, from $BATON_API_KEYS; there is no flag for it


DEVICE_KINDS = ("cpu", "fake")
Knobs = ExecutorConfig | SchedulerConfig | RouterConfig

SECTIONS: dict[str, type[msgspec.Struct]] = {
    "service": ServiceSettings,
    "link": LinkSettings,
    "model": ModelSettings,
    "device": DeviceSettings,
    "http": HttpSettings,
    "router": RouterConfig,
    "scheduler": SchedulerConfig,
    "executor": ExecutorConfig,
    "prefill": ExecutorConfig,
    "decode": ExecutorConfig,
    "unified": ExecutorConfig,
}

#: sections that a role reads; of the last ones, later override earlier
ROLE_SECTIONS: dict[Role, tuple[str, ...]] = {
    Role.ROUTER: ("service", "link", "model", "http", "router"),
    Role.SCHEDULER: ("service", "link", "scheduler"),
    Role.PREFILL: ("service", "link", "model", "device", "executor", "prefill"),
    Role.DECODE: ("service", "link", "model", "device", "executor", "decode"),
    Role.UNIFIED: ("service", "link", "model", "device", "executor", "unified"),
}

OWN_VARIABLES = {"BATON_API_KEYS": ("http", "api_keys")}

Layer = Mapping[str, Mapping[str, Any]]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that one service was told."""

    role: Role
    service: ServiceSettings
    link: LinkSettings
    model: ModelSettings
    device: DeviceSettings
    http: HttpSettings
    knobs: Knobs

    def as_line(self) -> str:
        """What this role reads of it as one line of JSON, for the log."""
        sections = {name: getattr(self, name) for name in ROLE_SECTIONS[self.role] if hasattr(self, name)}
        told = {"role": self.role.name, **sections, "knobs": self.knobs}
        return msgspec.json.encode(told, enc_hook=encode_secret).decode()


def load_settings(role: Role, file: Path | None, environment: Mapping[str, str], flags: Layer) -> Settings:
    """Merge the three layers. Raises SettingsInvalid, which names the key."""
    layers = [read_file(file) if file is not None else {}, read_environment(environment), flags]
    for layer in layers:
        check_keys(layer)
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            merged.setdefault(section, {}).update(values)
    own = ROLE_SECTIONS[role][-1]
    if role.is_executor:
        merged[own] = {**merged.get("executor", {}), **merged.get(own, {})}
    parsed = {name: _parse(name, merged.get(name, {})) for name in ("service", "link", "model", "device", "http", own)}
    knobs = parsed.pop(own)
    settings = Settings(role=role, knobs=knobs, **_completed(role, parsed))  # type: ignore[arg-type]
    _validate(settings)
    return settings


def read_file(path: Path) -> dict[str, dict[str, Any]]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"{path}: {error}") from error


def read_environment(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """`BATON_LINK_LISTEN=…` is the key `listen` of section `link`; variables of no section are not ours, but for those
    that have a name of their own."""
    found: dict[str, dict[str, Any]] = {}
    for variable, text in environment.items():
        prefix, _, rest = variable.partition("_")
        section, _, key = rest.lower().partition("_")
        if prefix == "BATON" and section in SECTIONS and key:
            found.setdefault(section, {})[key] = text
    for variable, (section, key) in OWN_VARIABLES.items():
        if variable in environment:
            found.setdefault(section, {})[key] = environment[variable]
    return found


def check_keys(layer: Layer) -> None:
    for section, values in layer.items():
        if section not in SECTIONS:
            raise SettingsInvalid(f"[{section}] is no section; there are {', '.join(SECTIONS)}")
        if not isinstance(values, Mapping):
            raise SettingsInvalid(f"{section} belongs to no section")
        for key in values:
            if key not in SECTIONS[section].__struct_fields__:
                raise SettingsInvalid(f"{section}.{key} is no setting")


def _parse(section: str, values: Mapping[str, Any]) -> msgspec.Struct:
    kind = SECTIONS[section]
    spread = {field.name: field.type for field in msgspec.structs.fields(kind)}
    prepared = {
        key: tuple(part for part in value.split(",") if part)
        if isinstance(value, str) and spread[key] == tuple[str, ...]
        else value
        for key, value in values.items()
    }
    try:
        return msgspec.convert(prepared, kind, strict=False, dec_hook=decode_secret)
    except msgspec.ValidationError as error:
        raise SettingsInvalid(f"[{section}] {error}") from error


def _completed(role: Role, parsed: dict[str, msgspec.Struct]) -> dict[str, msgspec.Struct]:
    """Fill in what was left to the service: its name, its epoch, where it listens."""
    service, link = parsed["service"], parsed["link"]
    assert isinstance(service, ServiceSettings) and isinstance(link, LinkSettings)  # noqa: PT018 - for the type checker
    if not service.name:
        service = msgspec.structs.replace(service, name=role.name.lower())
    if not service.epoch:
        service = msgspec.structs.replace(service, epoch=time.time_ns() // 1_000_000)
    if not link.listen:
        if role is Role.SCHEDULER:
            link = msgspec.structs.replace(link, listen=SCHEDULER_ENDPOINT)
        elif role.is_executor:
            link = msgspec.structs.replace(link, listen="tcp://127.0.0.1:*")
    return {**parsed, "service": service, "link": link}


def _validate(settings: Settings) -> None:
    _validate_numbers(settings)
    _validate_queue(settings)
    if not settings.link.keys:
        raise SettingsInvalid("link.keys is not set: make a key folder with `baton keys DIR` and name it with --keys")
    if not settings.role.may_be_called(settings.service.name):
        role = settings.role.name.lower()
        raise SettingsInvalid(f"service.name = {settings.service.name!r}: the name of a {role} begins with {role!r}")
    if settings.link.silence_s <= settings.link.heartbeat_s:
        link = settings.link
        raise SettingsInvalid(
            f"link.silence_s = {link.silence_s:g}: must be longer than link.heartbeat_s = {link.heartbeat_s:g}"
        )
    _validate_endpoints(settings)
    if settings.role.is_executor and settings.device.kind not in DEVICE_KINDS:
        raise SettingsInvalid(f"device.kind = {settings.device.kind!r} is none of {', '.join(DEVICE_KINDS)}")
    if vain := told_in_vain(settings.role, {name: getattr(settings, name) for name in ("service", "link", "device")}):
        raise SettingsInvalid(vain)
    if settings.role.is_executor and settings.device.kind != "fake" and not settings.model.folder:
        raise SettingsInvalid("model.folder is not set: make one with `baton model fetch` and name it with --model")
    if settings.role is Role.ROUTER and not settings.model.folder:
        raise SettingsInvalid("model.folder is not set: the router needs its tokenizer (--model)")
    try:
        settings.knobs.validate()
    except ValueError as error:
        raise SettingsInvalid(f"{settings.role.name.lower()}.{error}") from error
    if isinstance(settings.knobs, ExecutorConfig) and (why := contradiction(settings.knobs, settings.role)):
        raise SettingsInvalid(f"{settings.role.name.lower()}.{why}")
    _validate_ranks(settings)


def _validate_ranks(settings: Settings) -> None:
    """Ranks meet in one order of steps."""
    is_beside = isinstance(settings.knobs, ExecutorConfig) and settings.knobs.num_lanes > 1
    if is_beside and settings.device.num_ranks > 1:
        told = f"device.num_ranks = {settings.device.num_ranks}"
        raise SettingsInvalid(f"{told}: ranks compute one step at a time, without step_mode = overlap")


def _validate_queue(settings: Settings) -> None:
    """A session with the scheduler begins with all attempts at once: where they overflow the link it ends of that."""
    if isinstance(settings.knobs, RouterConfig) and settings.link.queued_frames < 2 * settings.knobs.max_streams:
        raise SettingsInvalid(
            f"link.queued_frames = {settings.link.queued_frames}: must be at least twice router.max_streams = "
            f"{settings.knobs.max_streams}"
        )


def _validate_endpoints(settings: Settings) -> None:
    link = settings.link
    checks: dict[str, Callable[[str], object]] = {"listen": is_local, "advertise": check_dialed}
    if settings.role is not Role.SCHEDULER:
        checks["scheduler"] = check_dialed
    for key, check in checks.items():
        try:
            if endpoint := getattr(link, key):
                check(endpoint)
        except EndpointRefused as error:
            raise SettingsInvalid(f"link.{key}: {error}") from error
    if settings.role is not Role.SCHEDULER and not link.scheduler:
        raise SettingsInvalid("link.scheduler is empty: where does the scheduler listen (--scheduler)?")


def _validate_numbers(settings: Settings) -> None:
    """Of the sections that this role reads; what others read is theirs to refuse."""
    try:
        for section in {"service", "link", "device", "http"}.intersection(ROLE_SECTIONS[settings.role]):
            check_ranges(section, getattr(settings, section))
    except ValueError as error:
        raise SettingsInvalid(str(error)) from error
    device, http = settings.device, settings.http
    if settings.role.is_executor and device.num_blocks == 0 and device.kv_bytes == 0:
        raise SettingsInvalid("device.num_blocks and device.kv_bytes are both 0: there is no KV memory")
    if settings.role is Role.ROUTER and http.default_timeout_s > http.max_timeout_s:
        bound = f"http.max_timeout_s = {http.max_timeout_s:g}"
        raise SettingsInvalid(f"http.default_timeout_s = {http.default_timeout_s:g}: longer than {bound}")
