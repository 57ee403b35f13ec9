"""From a command line to a running service."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from baton.core.ids import Role
from baton.services.runtime.flags import flags_layer, service_parser
from baton.services.runtime.journal import make_journal_folder
from baton.services.runtime.lifecycle import EXIT_REFUSED, Lifecycle, run_service
from baton.services.runtime.log import Log, forward_logging
from baton.services.runtime.refusal import write_refusal
from baton.services.runtime.settings import Settings, SettingsInvalid, load_settings

Serve = Callable[[Lifecycle, Settings], Awaitable[None]]


def run_role(role: Role, serve: Serve, arguments: list[str] | None = None) -> int:
    """Read the settings, say what they are, and serve until told to stop. Returns the exit code."""
    try:
        settings = read_settings(role, arguments, os.environ)
        check_folders(settings)
    except SettingsInvalid as error:
        print(f"baton {role.name.lower()}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    log = Log(settings.service.name, settings.service.epoch)
    forward_logging(log)
    log.info("settings", resolved=settings.as_line())
    service = settings.service
    return run_service(
        log,
        lambda life: serve(life, settings),
        service.parent_pid,
        refused=lambda cause: write_refusal(service.run_folder, service.name, cause),
    )


def read_settings(role: Role, arguments: Sequence[str] | None, environment: Mapping[str, str]) -> Settings:
    """The settings of a command line (None: that of this process) over the environment over the file that it names.

    Raises SettingsInvalid; a command line that does not parse ends the process.
    """
    options = service_parser(role).parse_args(arguments)
    return load_settings(role, options.config, environment, flags_layer(role, options))


def check_folders(settings: Settings) -> None:
    """Before a model is loaded: that what will be written can be. Raises SettingsInvalid, which names the key."""
    service = settings.service
    if service.run_folder and not Path(service.run_folder).is_dir():
        raise SettingsInvalid(f"service.run_folder = {service.run_folder!r}: no such folder")
    if service.run_folder and not os.access(service.run_folder, os.W_OK | os.X_OK):
        raise SettingsInvalid(f"service.run_folder = {service.run_folder!r}: this user may not write there")
    if service.journal_folder:
        make_journal_folder(service.journal_folder)
