"""When what has come for a stream is written: those of one round of the loop together, and none too often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

Callback = Callable[[], None]
TICKS_PER_S = 1000  #: the grain of the loop's timers


class Pace:
    """Calls back from the loop, one entry in it for however many callbacks. They must not raise.

    A stream that was called less than `interval_s` ago waits for the rest of it. An engine whose tokens come no faster
    than that is never held up; a faster one costs each stream at most 1 / `interval_s` writes in a second.
    """

    def __init__(self, interval_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.interval_s = interval_s
        self.clock = clock
        self._due: list[Callback] = []
        self._later: dict[int, list[Callback]] = {}  #: by the tick in which they are called

    def call(self, callback: Callback, at: float = 0.0) -> None:
        """Soon, but not before the clock shows `at`."""
        now = self.clock()
        if at > now:
            self._call_later(callback, at, now)
            return
        if not self._due:
            asyncio.get_running_loop().call_soon(self._run)
        self._due.append(callback)

    def _call_later(self, callback: Callback, at: float, now: float) -> None:
        tick = int(at * TICKS_PER_S) + 1
        waiting = self._later.get(tick)
        if waiting is None:
            waiting = self._later[tick] = []
            asyncio.get_running_loop().call_later(tick / TICKS_PER_S - now, self._run_tick, tick)
        waiting.append(callback)

    def _run_tick(self, tick: int) -> None:
        for callback in self._later.pop(tick):
            callback()

    def _run(self) -> None:
        due, self._due = self._due, []
        for callback in due:
            callback()
