"""What of a performance run may be replaced, so that another way of doing things can be shown beside ours: a process's
loop, the device, the transfer thread, the nodes themselves."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import msgspec

from baton.core.errors import ServingError
from baton.core.sim.fleet_run.device import TimedDevice
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.transfer import TimedTransfer
from baton.core.sim.wiring import Wiring


class FleetWiring(Wiring):
    """As a real executor measures itself: one block of each pool is never granted."""

    def num_spare_blocks(self, spec: Any) -> int:
        return 1


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Each is called with the arguments of the class that stands here by default. `settings` are the scenario's own."""

    process: Callable[..., LoopProcess] = LoopProcess
    device: Callable[..., TimedDevice] = TimedDevice
    transfer: Callable[..., TimedTransfer] = TimedTransfer
    wiring: Callable[..., Wiring] = FleetWiring


OURS = Parts()


class BadParts(ServingError):
    """There are no such parts."""


def load_parts(path: str, settings: dict[str, Any]) -> Parts:
    """`module:name` of `Parts`, or of a function that makes them from the settings. Raises BadParts."""
    if not path:
        if settings:
            raise BadParts(f"parts_settings: {', '.join(settings)}: without parts they have no effect")
        return OURS
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadParts(f"parts: {path!r}: {error}") from error
    if isinstance(found, Parts):
        if settings:
            raise BadParts(f"parts_settings: {path} takes none")
        return found
    try:
        made = found(**settings)
    except TypeError as error:
        raise BadParts(f"parts_settings: {error}") from error
    if not isinstance(made, Parts):
        raise BadParts(f"parts: {path!r} makes no Parts")
    return made
