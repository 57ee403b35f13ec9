"""The running processes of a deployment: each is started, watched, and started again under a new epoch when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from baton.core.errors import ServingError
from baton.core.ids import Life
from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.runtime.log import Log
from baton.services.runtime.process import read_record
from baton.services.runtime.refusal import read_refusal
from baton.services.up.plan import ChildPlan

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
MAX_UNSERVED = 5  #: lives in a row that end before they serve, where none ever did
STEADY_S = 10.0  #: a life of this length forgets earlier deaths


OTHERS_POLL_S = 0.01
OTHERS_WARN_S = 5.0  #: after so long it is told that processes of an ended life are still there


class StartRefused(ServingError):
    """A process says that it cannot start with these settings; starting it again would change nothing."""


class Child:
    """One name of the deployment, over all its lives."""

    def __init__(self, plan: ChildPlan, log: Log, exited: Callable[[Life], None], run_folder: Path) -> None:
        self.plan = plan
        self.num_starts = 0
        self.epoch = 0  #: of the current or last life
        self._log = log
        self._exited = exited
        self._run_folder = run_folder
        self._num_unserved = 0  #: lives that ended before any served
        self._has_served = False  #: in any life
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._wake = asyncio.Event()  #: set to end a backoff early

    @property
    def pid(self) -> int:
        """Of the current life; 0 between lives."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_serving(self) -> bool:
        """Whether the current life has come so far as to say where it is."""
        record = read_record(self._run_folder, self.plan.name)
        return record is not None and record.epoch == self.epoch

    async def keep_running(self) -> None:
        """Start it again whenever it ends, until `stop`. Raises StartRefused."""
        backoff_s = FIRST_BACKOFF_S
        while not self._is_stopping:
            started_at = time.monotonic()
            code = await self._live_once()
            if self._is_stopping:
                return
            self._judge(code)
            if time.monotonic() - started_at >= STEADY_S:
                backoff_s = FIRST_BACKOFF_S
            self._log.warn("restarting", child=self.plan.name, exit_code=code, backoff_s=backoff_s)
            await self._pause(backoff_s)
            backoff_s = min(MAX_BACKOFF_S, 2 * backoff_s)

    def stop(self) -> None:
        """Ask the current life to end, and begin no other. One that does not serve yet is ended: it holds nothing of
        any request, and while it loads a model it hears nobody."""
        self._is_stopping = True
        self._wake.set()
        self._end_life()

    def kill(self) -> None:
        """End the current life whatever it does."""
        if self._process is not None:
            self._process.kill()

    def _end_life(self) -> None:
        if self._process is not None and self.is_serving:
            self._process.terminate()
        elif self._process is not None:
            self._process.kill()

    def _judge(self, code: int) -> None:
        """Raises StartRefused if another life would end as this one did."""
        name = self.plan.name
        if code == EXIT_REFUSED:
            cause = read_refusal(self._run_folder, name)
            raise StartRefused(f"{name} cannot start: {cause}" if cause else f"{name} cannot start: its log says why")
        if self.is_serving:
            self._has_served = True
        elif not self._has_served:
            self._num_unserved += 1
        if self._num_unserved >= MAX_UNSERVED:
            times = f"{self._num_unserved} times before it served, at last with exit code {code}"
            raise StartRefused(f"{name} ended {times}: its log says why")

    async def _live_once(self) -> int:
        self.epoch = max(self.epoch + 1, time.time_ns() // 1_000_000)
        self.num_starts += 1
        command = (*self.plan.program, *self.plan.flags, "--epoch", str(self.epoch), *self._where_it_was())
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C reaches the launcher alone
        )
        self._log.info("started", child=self.plan.name, child_epoch=self.epoch, pid=self._process.pid)
        if self._is_stopping:  # asked to while it was being started
            self._end_life()
        session = self._process.pid
        code = await self._process.wait()
        self._process = None
        await self._others_ended(session)
        self._log.info("exited", child=self.plan.name, child_epoch=self.epoch, exit_code=code)
        self._exited(Life(self.plan.name, self.epoch))
        return code

    def _where_it_was(self) -> tuple[str, ...]:
        """The port that an earlier life served on, if it was free to choose one: its clients know no other."""
        record = read_record(self._run_folder, self.plan.name)
        return ("--port", str(record.http_port)) if record is not None and record.http_port else ()

    async def _others_ended(self, session: int) -> None:
        """Until nothing that the life has started runs: the kernel kills its ranks with it, which takes a moment, and
        until then they may write to peers. Its exit is told as a proof that they do not."""
        warn_at = time.monotonic() + OTHERS_WARN_S
        while (others := processes_of(session)) and not self._is_stopping:
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > warn_at:
                warn_at = math.inf
                self._log.warn("its processes do not end", child=self.plan.name, pids=",".join(map(str, others)))
            await asyncio.sleep(OTHERS_POLL_S)

    async def _pause(self, duration_s: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), duration_s)
        except TimeoutError:
            return


def processes_of(session: int) -> list[int]:
    """Of that session, whose leader is the first process of a child's life; zombies are over."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, owner, *_ = path.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        if int(owner) == session and state not in "ZX":
            found.append(int(path.parent.name))
    return found
