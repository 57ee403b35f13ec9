"""What can be found wrong before any process of a deployment is started, and what the launcher must know of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import fields

from baton.core.config import SchedulerConfig
from baton.core.ids import Role
from baton.core.knob_effects import lacking
from baton.services.router.http.auth import load_api_keys
from baton.services.runtime.entry import read_settings
from baton.services.runtime.journal import make_journal_folder
from baton.services.runtime.settings import HttpSettings, Settings, SettingsInvalid, read_environment, read_file
from baton.services.transport.http_address import cannot_listen
from baton.services.up.plan import UpOptions, check_strict, plan_children

#: what a service needs beyond its own drain: its sockets, its threads, its exit
STOP_MARGIN_S = 10.0


class Checked(NamedTuple):
    """Of settings that every process will take."""

    host: str  #: where the router listens
    served_names: tuple[str, ...]  #: the model folder's name if empty
    needs_api_key: bool
    stop_timeouts_s: Mapping[str, float]  #: by child: after so long a stop is no longer waited for


def configured_model(config: Path | None, environment: Mapping[str, str]) -> str:
    """The model that the file or the environment names. Raises SettingsInvalid."""
    layers = [read_environment(environment), {} if config is None else read_file(config)]
    found = (layer["model"].get("folder") for layer in layers if isinstance(layer.get("model"), dict))
    return str(next(filter(None, found), ""))


def check_start(options: UpOptions, environment: Mapping[str, str]) -> Checked:
    """Read each process's settings as it will, and try what else would end a start. Raises a ServingError."""
    if options.config is not None:
        check_sections(options, read_file(options.config), str(options.config))
    check_sections(options, read_environment(environment), "environment")
    told = {
        plan.name: read_settings(plan.role, plan.flags, environment)
        for plan in plan_children(options, Path("/"), os.getpid())
    }
    scheduler = told[Role.SCHEDULER.name.lower()].knobs
    assert isinstance(scheduler, SchedulerConfig)  # for the type checker
    check_strict(options, scheduler.strict_pd)
    check_placing(options, scheduler)
    http = next(settings.http for settings in told.values() if settings.role is Role.ROUTER)
    check_address(http.host, http.port)
    if options.journal is not None:
        make_journal_folder(str(options.journal), "--journal")
    needs_api_key = check_api_keys(http)
    timeouts_s = {name: stop_timeout_s(settings) for name, settings in told.items()}
    return Checked(http.host, http.served_names, needs_api_key, timeouts_s)


def check_sections(options: UpOptions, told: Mapping[str, object], where: str) -> None:
    """C12: knobs of executors that are not there have no effect. Raises SettingsInvalid."""
    for section in told:
        if told[section] and (why := lacking(section, "", options.counts)):
            raise SettingsInvalid(f"{where}: [{section}] has no effect: {why}")


def check_placing(options: UpOptions, scheduler: SchedulerConfig) -> None:
    """C12: the same of the scheduler's knobs that are about executors which are not there, wherever they were told."""
    for knob in fields(scheduler):
        value = getattr(scheduler, knob.name)
        if value != knob.default and (why := lacking("scheduler", knob.name, options.counts)):
            raise SettingsInvalid(f"scheduler.{knob.name} = {value} has no effect: {why}")


def check_address(host: str, port: int) -> None:
    """Raises EndpointRefused where the router could not listen now."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        raise cannot_listen(host, port, "--host, --port", error) from error


def check_api_keys(http: HttpSettings) -> bool:
    """Whether clients need one. Raises ApiKeysInvalid. The deployment's hash key names tenants and decides nothing."""
    return load_api_keys(http.api_keys_file, http.api_keys, bytes(16), http.max_priority) is not None


def stop_timeout_s(settings: Settings) -> float:
    """Longer than the service itself takes at most."""
    grace_s = settings.http.stop_grace_s if settings.role is Role.ROUTER else 0.0
    return grace_s + settings.service.drain_timeout_s + STOP_MARGIN_S
