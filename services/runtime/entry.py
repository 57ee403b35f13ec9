"""From a command line to a running service."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable

from baton.core.ids import Role
from baton.services.runtime.flags import flags_layer, service_parser
from baton.services.runtime.lifecycle import EXIT_REFUSED, Lifecycle, run_service
from baton.services.runtime.log import Log, forward_logging
from baton.services.runtime.settings import Settings, SettingsInvalid, load_settings

Serve = Callable[[Lifecycle, Settings], Awaitable[None]]


def run_role(role: Role, serve: Serve, arguments: list[str] | None = None) -> int:
    """Read the settings, say what they are, and serve until told to stop. Returns the exit code."""
    options = service_parser(role).parse_args(arguments)
    try:
        settings = load_settings(role, options.config, os.environ, flags_layer(role, options))
    except SettingsInvalid as error:
        print(f"baton {role.name.lower()}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    log = Log(settings.service.name, settings.service.epoch)
    forward_logging(log)
    log.info("settings", resolved=settings.as_line())
    return run_service(log, lambda life: serve(life, settings), settings.service.parent_pid)
