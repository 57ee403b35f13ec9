"""The running processes of a deployment: each is started, watched, and started again under a new epoch when it dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from baton.core.errors import ServingError
from baton.core.ids import Life
from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.runtime.log import Log
from baton.services.up.plan import ChildPlan

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
STEADY_S = 10.0  #: a life of this length forgets earlier deaths


class StartRefused(ServingError):
    """A process says that it cannot start with these settings; starting it again would change nothing."""


class Child:
    """One name of the deployment, over all its lives."""

    def __init__(self, plan: ChildPlan, log: Log, exited: Callable[[Life], None]) -> None:
        self.plan = plan
        self.num_starts = 0
        self.epoch = 0  #: of the current or last life
        self._log = log
        self._exited = exited
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._wake = asyncio.Event()  #: set to end a backoff early

    @property
    def pid(self) -> int:
        """Of the current life; 0 between lives."""
        return self._process.pid if self._process is not None else 0

    async def keep_running(self) -> None:
        """Start it again whenever it ends, until `stop`. Raises StartRefused."""
        backoff_s = FIRST_BACKOFF_S
        while not self._is_stopping:
            started_at = time.monotonic()
            code = await self._live_once()
            if self._is_stopping:
                return
            if code == EXIT_REFUSED:
                raise StartRefused(f"{self.plan.name} cannot start; its last line says why")
            if time.monotonic() - started_at >= STEADY_S:
                backoff_s = FIRST_BACKOFF_S
            self._log.warn("restarting", child=self.plan.name, exit_code=code, backoff_s=backoff_s)
            await self._pause(backoff_s)
            backoff_s = min(MAX_BACKOFF_S, 2 * backoff_s)

    def stop(self) -> None:
        """Ask the current life to end, and begin no other."""
        self._is_stopping = True
        self._wake.set()
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the current life whatever it does."""
        if self._process is not None:
            self._process.kill()

    async def _live_once(self) -> int:
        self.epoch = max(self.epoch + 1, time.time_ns() // 1_000_000)
        self.num_starts += 1
        command = (*self.plan.command, "--epoch", str(self.epoch))
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C reaches the launcher alone
        )
        self._log.info("started", child=self.plan.name, child_epoch=self.epoch, pid=self._process.pid)
        if self._is_stopping:  # asked to while it was being started
            self._process.terminate()
        code = await self._process.wait()
        self._process = None
        self._log.info("exited", child=self.plan.name, child_epoch=self.epoch, exit_code=code)
        self._exited(Life(self.plan.name, self.epoch))
        return code

    async def _pause(self, duration_s: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), duration_s)
        except TimeoutError:
            return
