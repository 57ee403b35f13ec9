"""From start to exit of a service: the loop, signals, background tasks, and how it ends when one of them dies."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

import uvloop

from baton.core.errors import ServingError
from baton.services.runtime.log import Log

EXIT_REFUSED = 2  #: settings, keys or addresses do not allow a start
EXIT_BUG = 72  #: an error that nobody expected
_PR_SET_PDEATHSIG = 1


class Lifecycle:
    """Holds every task of a service. The first error that nobody expected ends the process at once, freeing nothing:
    devices and transports may still be at work on its memory."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._flushes: list[Callable[[], None]] = [log.flush]

    def before_exit(self, flush: Callable[[], None]) -> None:
        """`flush` runs on every way out; it must not block."""
        self._flushes.insert(0, flush)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run it until the service ends; its error ends the service."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def fail(self, error: BaseException) -> None:
        """An error that nobody expected: tell it whole and end the process."""
        for line in "".join(traceback.format_exception(error)).rstrip().splitlines():
            self.log.error("failed", detail=line)
        self.exit_now(EXIT_BUG)

    def exit_now(self, code: int) -> NoReturn:
        """End the process without freeing anything."""
        for flush in self._flushes:
            try:
                flush()
            except OSError:  # a full disk must not keep a broken process alive
                continue
        os._exit(code)

    def request_stop(self) -> None:
        """As SIGTERM: the first asks to finish, the second ends at once."""
        if self._stop.is_set():
            self.log.warn("stopped while stopping")
            self.exit_now(128 + signal.SIGTERM)
        self._stop.set()

    async def stop_requested(self) -> None:
        await self._stop.wait()

    async def end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def flush(self) -> None:
        for flush in self._flushes:
            flush()

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


def run_service(
    log: Log,
    main: Callable[[Lifecycle], Awaitable[None]],
    parent_pid: int = 0,
    refused: Callable[[str], None] = lambda cause: None,
) -> int:
    """Run `main` on a uvloop until it returns; its exit code. A typed error of the start is told in one line, and to
    `refused`."""
    if parent_pid:
        die_with_parent(parent_pid)

    async def live() -> int:
        life = Lifecycle(log)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, life.request_stop)
        try:
            await main(life)
        except (ServingError, ValueError) as error:
            log.error("cannot go on", kind=type(error).__name__, detail=str(error))
            refused(str(error))
            return EXIT_REFUSED
        except Exception as error:
            life.fail(error)
        finally:
            await life.end_tasks()
            life.flush()
        return 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(live())


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel end this process when its parent has ended, however that ended."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it was gone before the kernel knew
        os._exit(128 + signal.SIGKILL)
