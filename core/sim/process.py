"""A process of the simulated world: one node, its threads' mailbox and its life.

A stopped process (SIGSTOP) does nothing and loses nothing: what would have happened in it waits in its backlog. A dead
one drops everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from baton.core.events import one_of
from baton.core.ids import Life, Peer, Role
from baton.core.session.node import Node
from baton.core.sim.env import Call, Env

if TYPE_CHECKING:
    from baton.core.sim.device import SimDevice
    from baton.core.sim.link import Connection
    from baton.core.sim.memory import KvMemory
    from baton.core.sim.transport import TransferThread

Turn = Callable[["Process", Any], None]


@mypyc_attr(allow_interpreted_subclasses=True)  # parts of a scenario may be such
class Process:
    """One life of a named process. `turn` hands an event to its node and performs the commands."""

    def __init__(
        self, env: Env, own: Peer, node: Node, clock_offset_s: float, turn: Turn, busy_loop_s: float = 0.0
    ) -> None:
        self.env = env
        self.own = own
        self.name = own.name
        self.role: Role = own.role
        self.node = node
        self.clock_offset_s = clock_offset_s  #: its monotonic clock minus the world's time
        self.is_alive = True
        self.is_stopped = False
        self.timer_at: float | None = None  #: world time of the earliest timer that is set
        self.num_wakes_at_once = 0
        self.last_wake_at = 0.0
        self.busy_loop_s = busy_loop_s  #: how long what its threads and sockets bring may wait for the loop
        self.exit_cause = ""  #: why it may end by its own decision; empty: it may not
        self.dialed: dict[str, Connection] = {}  #: link → its socket
        self.accepted: dict[str, Connection] = {}  #: routing identity → the connection that has it now
        self.device: SimDevice | None = None
        self.transfer: TransferThread | None = None
        self.memory: KvMemory | None = None
        self._turn = turn
        self._brought: list[Any] = []  #: what they brought and its loop has not taken
        self._backlog: deque[tuple[Call, tuple[Any, ...]]] = deque()

    @property
    def life(self) -> Life:
        return self.own.life

    @property
    def identity(self) -> str:
        """How its dialed sockets name themselves to the other end."""
        return f"{self.name}/{self.own.epoch}"

    def transfer_of(self) -> TransferThread:
        """The transfer thread of an executor, also after its death."""
        assert self.transfer is not None
        return self.transfer

    def run(self, call: Call, *args: Any) -> None:
        """Something happens inside this process: now, or when it goes on, or never."""
        if self.is_stopped:
            self._backlog.append((call, args))
        elif self.is_alive:
            call(*args)

    def hand(self, event: Any) -> None:
        """The loop of this process takes one event from its inbox."""
        if self.is_stopped:
            self._backlog.append((self._turn, (self, event)))
        elif self.is_alive:
            self._turn(self, event)

    def report(self, event: Any) -> None:
        """A thread of this process says something."""
        self._bring(event)

    def receive(self, event: Any) -> None:
        """A socket of this process has a frame."""
        self._bring(event)

    def _bring(self, event: Any) -> None:
        """A busy loop takes what has come meanwhile in one turn."""
        if self.busy_loop_s == 0:
            self.hand(event)
            return
        self._brought.append(event)
        if len(self._brought) == 1:
            self.env.time.after(self.env.random() * self.busy_loop_s, self.run, self._take_brought)

    def _take_brought(self) -> None:
        events, self._brought = self._brought, []
        self.hand(one_of(events))

    def stop(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        """All that waited happens: in order for each socket and thread, in any order among them."""
        self.is_stopped = False
        sources: dict[Any, deque[tuple[Call, tuple[Any, ...]]]] = {}
        for call, args in self._backlog:
            source = args[0] if call.__name__ == "read_socket" else None
            sources.setdefault(source, deque()).append((call, args))
        self._backlog.clear()
        waiting = list(sources.values())
        while waiting and self.is_alive:
            chosen = waiting[int(self.env.random() * len(waiting))]
            call, args = chosen.popleft()
            if not chosen:
                waiting.remove(chosen)
            self.run(call, *args)

    def die(self) -> None:
        self.is_alive = False
        self.is_stopped = False
        self._backlog.clear()


class ThreadMailbox:
    """What one thread of a process says to its loop: in order, a little later."""

    __slots__ = ("_last_at", "_process")

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last_at = 0.0

    def post(self, event: Any, delay_s: float = 0.0) -> None:
        env = self._process.env
        when = env.time.now + delay_s + env.random() * 2e-4
        if when < self._last_at:
            when = self._last_at
        self._last_at = when
        env.time.at(when, self._process.run, self._process.report, event)
