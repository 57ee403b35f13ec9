"""Runs one node: one inbox, one turn at a time, no await between what a turn takes and the performing of its commands.

Sockets, timers and threads only post. What has come while the loop did something else is one turn: the busier a process
is, the fewer turns, frames and wake-ups it needs for the same events. Whoever performs a command reads no state of the
node, so the order of the inbox, and what of it was taken together, is the only thing that a run depends on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from baton.core.errors import InvariantViolated
from baton.core.events import Wake, each_of, one_of
from baton.core.metrics.histogram import SHORT_TIMES_S, Histogram
from baton.core.trace.recorder import Recorder

EVENTS_PER_TURN = 128  #: then sockets and clients get their share of the loop
TIMER_GRAIN_S = 1e-3  #: the loop's timers and its clock count milliseconds, so the node's clock is another one


class Decider(Protocol):
    """What a driver runs: a node (or any machine)."""

    next_wake: float | None

    def handle(self, event: Any, now: float) -> Sequence[Any]: ...


class Journal(Protocol):
    """Keeps what happened, so that it can be replayed."""

    def record(self, now: float, event: Any, commands: Sequence[Any]) -> None: ...

    def flush(self) -> None: ...


class Driver:
    """See the module. `on_failure` gets the first error of the node or of a performer; no turn follows it."""

    def __init__(
        self,
        node: Decider,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[Exception], None],
        journal: Journal | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.num_events = 0
        self.turns: dict[str, Histogram] = {}  #: by kind of what was taken: how long the node and its performers took
        self.busy_s = 0.0  #: time spent in turns
        self._node = node
        self._loop = loop
        self._on_failure = on_failure
        self._journal = journal
        self._recorder = recorder
        self._times: dict[type, Histogram] = {}  #: the values of `turns`
        self._inbox: deque[Any] = deque()
        self._performers: dict[type, Callable[[Any], None]] = {}
        self._is_turn_due = False
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None  #: what `_timer` was set for

    def perform(self, command_type: type, performer: Callable[[Any], None]) -> None:
        """`performer` carries out the commands of this type. It may post, and must not block."""
        self._performers[command_type] = performer

    def post(self, event: Any) -> None:
        """Put an event into the inbox. Only from the loop's thread."""
        self._inbox.append(event)
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def stop(self) -> None:
        """No turn follows; what is in the inbox is dropped."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._is_turn_due = False
        if self._is_stopped:
            return
        started_at = time.monotonic()
        try:
            self._run_events(self._take())
            if self._journal is not None:
                self._journal.flush()  # once for all events of the turn: whoever is killed leaves what it answered
        except Exception as error:  # the driver is its service's task supervisor: whatever fails here ends the service
            self.stop()
            self._on_failure(error)
            return
        self.busy_s += time.monotonic() - started_at
        self._set_timer()
        if self._inbox and not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _take(self) -> Any:
        """What has come, in order; not more than leaves the loop to others in between."""
        inbox = self._inbox
        return one_of([inbox.popleft() for _ in range(min(len(inbox), EVENTS_PER_TURN))])

    def _run_events(self, event: Any) -> None:
        now = time.monotonic()
        commands = self._node.handle(event, now)
        self.num_events += len(each_of(event))
        if self._journal is not None:
            self._journal.record(now, event, commands)
        for command in commands:
            performer = self._performers.get(type(command))
            if performer is None:
                raise InvariantViolated(f"nobody performs {type(command).__name__}")
            performer(command)
        ended_at = time.monotonic()
        (self._times.get(type(event)) or self._new_times(type(event))).observe(ended_at - now)
        if self._recorder is not None:
            self._recorder.turn(event, commands, now, ended_at)

    def _new_times(self, kind: type) -> Histogram:
        times = self._times[kind] = self.turns[kind.__name__] = Histogram(SHORT_TIMES_S)
        return times

    def _set_timer(self) -> None:
        wake_at = self._node.next_wake
        if wake_at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = wake_at
        if wake_at is None:
            self._timer = None
        else:
            delay_s = max(0.0, wake_at - time.monotonic())
            self._timer = self._loop.call_later(delay_s + TIMER_GRAIN_S, self._ring)

    def _ring(self) -> None:
        self._timer = self._timer_at = None
        self.post(Wake())
