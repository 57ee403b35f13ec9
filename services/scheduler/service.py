"""The scheduler as a process: one machine and its links, nothing else."""

from __future__ import annotations

from pathlib import Path

from baton.core.config import SchedulerConfig
from baton.core.errors import InvariantViolated
from baton.core.ids import Role
from baton.core.scheduler.machine import SchedulerCore
from baton.services.runtime.entry import run_role
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.process import Process
from baton.services.runtime.settings import Settings
from baton.services.transport.keys import KeyRing


async def serve_scheduler(life: Lifecycle, settings: Settings) -> None:
    """Serve until the lifecycle asks to stop."""
    config = settings.knobs
    if not isinstance(config, SchedulerConfig):
        raise InvariantViolated("a scheduler needs a scheduler's knobs")
    ring = KeyRing(Path(settings.link.keys), settings.service.name)
    process = Process(life, settings, ring, lambda own: SchedulerCore(own, config))
    await process.serve()
    await life.stop_requested()
    process.shut()


def main(arguments: list[str] | None = None) -> int:
    return run_role(Role.SCHEDULER, serve_scheduler, arguments)
