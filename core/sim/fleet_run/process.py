"""A process of a performance run: one node, and a loop that takes one event at a time and may be occupied meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from mypy_extensions import mypyc_attr

from baton.core.events import Several, each_of
from baton.core.executor.events import ThreadEvent
from baton.core.ids import Peer
from baton.core.session.node import Node
from baton.core.sim.env import Env
from baton.core.sim.process import Process, Turn

if TYPE_CHECKING:
    from baton.core.sim.fleet_run.device import TimedDevice
    from baton.core.sim.fleet_run.transfer import TimedTransfer

THREAD_EVENTS: tuple[type, ...] = (Several, *get_args(ThreadEvent))
Perform = Callable[["LoopProcess", Any], None]


@mypyc_attr(allow_interpreted_subclasses=True)  # parts of a scenario may be such
class LoopProcess(Process):
    """While the loop is occupied, what comes waits in its inbox, and so do the commands of the turn that occupied it:
    they are performed in order when it is free. What threads said meanwhile is taken as one event."""

    def __init__(self, env: Env, own: Peer, node: Node, turn: Turn, perform: Perform) -> None:
        super().__init__(env, own, node, 0.0, turn)
        self.num_turns = 0
        self.compute: TimedDevice | None = None  #: of an executor
        self.wires: TimedTransfer | None = None  #: of an executor
        self.occupied_s = 0.0  #: so far
        self._perform = perform
        self._inbox: deque[Any] = deque()
        self._commands: deque[Any] = deque()  #: of the turn that occupied the loop, not performed yet
        self._occupied_since: float | None = None

    @property
    def is_occupied(self) -> bool:
        return self._occupied_since is not None

    def hand(self, event: Any) -> None:
        """The loop takes the event now, or when it is free."""
        if self._occupied_since is not None:
            self._inbox.append(event)
        else:
            self._turn(self, event)

    def report(self, event: Any) -> None:
        """A thread of this process says something."""
        self.hand(event)

    def perform(self, commands: Sequence[Any]) -> None:
        """The commands of a turn, in order, as far as the loop is not occupied by one of them."""
        perform = self._perform
        for position, command in enumerate(commands):
            perform(self, command)
            if self._occupied_since is not None:
                self._commands.extend(commands[position + 1 :])
                return

    def occupy(self, duration_s: float) -> None:
        """The loop does nothing else for so long."""
        if duration_s > 0:
            self.block()
            self.env.time.after(duration_s, self.unblock)

    def block(self) -> None:
        """The loop does nothing else until `unblock`."""
        if self._occupied_since is not None:
            raise RuntimeError(f"{self.name} is occupied already")
        self._occupied_since = self.env.time.now

    def unblock(self) -> None:
        """It goes on where it was, then takes what has come."""
        if self._occupied_since is None:
            raise RuntimeError(f"{self.name} is not occupied")
        self.occupied_s += self.env.time.now - self._occupied_since
        self._occupied_since = None
        waiting = self._commands
        while waiting and not self.is_occupied:
            self._perform(self, waiting.popleft())
        while self._inbox and not self.is_occupied:
            self._turn(self, self._take())

    def _take(self) -> Any:
        event = self._inbox.popleft()
        if not isinstance(event, THREAD_EVENTS):
            return event
        said: list[Any] = [event]
        while self._inbox and isinstance(self._inbox[0], THREAD_EVENTS):
            said.append(self._inbox.popleft())
        if len(said) == 1:
            return event
        return Several(tuple([event for each in said for event in each_of(each)]))
