"""Control links as ZeroMQ makes them: a DEALER that dials with identity `name/epoch`, a bound ROUTER that accepts.

- Each direction is FIFO. What is on its way when a connection breaks is lost, in both directions.
- The dialing end keeps what it said while it is not connected (up to its bound) and sends it after the reconnect, to
  whoever is bound there then: a restarted process gets frames of its predecessor's sessions.
- The accepting end drops what it says to an identity that is not connected.
- A direction holds a bounded number of frames that nobody has read; one more is lost and the sender hears LinkFull.
- Faults lose, double or spoil single frames.
"""

from __future__ import annotations

from collections import deque

from baton.core.session.node import FrameArrived, LinkFull
from baton.core.sim.env import Env
from baton.core.sim.process import Process
from baton.core.sim.spoiler import spoil

CONNECT_S = 2e-3  #: longest time to connect when somebody is bound
LATE_LOSS = 0.5  #: chance that what a dead process had on its way is lost with it


class Direction:
    """One direction of a connection."""

    __slots__ = ("is_full", "last_at", "num_to_double", "num_to_lose", "num_to_spoil", "num_unread")

    def __init__(self) -> None:
        self.last_at = 0.0  #: arrival of the last frame: later ones come after it
        self.num_unread = 0  #: frames on their way or waiting for a stopped reader
        self.num_to_lose = 0  #: faults: the next frames vanish
        self.num_to_double = 0  #: faults: the next frames come twice
        self.num_to_spoil = 0  #: faults: other frames come in place of the next ones
        self.is_full = False  #: fault: the next frame finds no room


class Connection:
    """One dialed socket and whoever it reaches."""

    __slots__ = ("acceptor", "address", "dialer", "down", "generation", "identity", "is_open", "link", "up", "waiting")

    def __init__(self, dialer: Process, link: str, address: str) -> None:
        self.dialer = dialer
        self.link = link
        self.address = address
        self.identity = dialer.identity
        self.acceptor: Process | None = None  #: while connected
        self.generation = 0  #: counts breaks; what an earlier generation carried is lost
        self.waiting: deque[bytes] = deque()  #: said while not connected
        self.up = Direction()
        self.down = Direction()
        self.is_open = True


class Network:
    """All control links of the world."""

    def __init__(self, env: Env, latency_s: float, max_unread: int) -> None:
        self._env = env
        self._latency_s = latency_s
        self._max_unread = max_unread
        self._bound: dict[str, Process] = {}
        self.num_spoiled = 0  #: frames so far
        self.connections: list[Connection] = []  #: the open ones, in the order of their opening

    # ---- processes

    def bind(self, process: Process) -> None:
        self._bound[process.own.address] = process
        for connection in self.connections:
            if connection.acceptor is None and connection.address == process.own.address:
                self._connect_soon(connection)

    def remove(self, process: Process) -> None:
        """The process is dead: its sockets are gone."""
        if self._bound.get(process.own.address) is process:
            del self._bound[process.own.address]
        for connection in list(self.connections):
            if connection.dialer is process:
                self._shut(connection, keeps_flying=self._env.random() >= LATE_LOSS)
            elif connection.acceptor is process:
                self._break(connection)

    # ---- commands of a node

    def open(self, process: Process, link: str, address: str) -> None:
        connection = Connection(process, link, address)
        process.dialed[link] = connection
        self.connections.append(connection)
        self._connect_soon(connection)

    def close(self, process: Process, link: str) -> None:
        self._shut(process.dialed.pop(link), keeps_flying=True)

    def transmit(self, process: Process, link: str, data: bytes) -> None:
        connection = process.dialed.get(link)
        if connection is not None:
            self._say_up(connection, data)
            return
        accepted = process.accepted.get(link)
        if accepted is not None and accepted.acceptor is process and accepted.is_open:
            self._carry(accepted, accepted.down, process, accepted.dialer, accepted.link, data)

    def _say_up(self, connection: Connection, data: bytes) -> None:
        if connection.acceptor is not None:
            self._carry(
                connection, connection.up, connection.dialer, connection.acceptor, connection.identity, data
            )
        elif len(connection.waiting) < self._max_unread:
            connection.waiting.append(data)
        else:
            self._full(connection.dialer, connection.link)

    # ---- faults

    def cut(self, connection: Connection, duration_s: float) -> None:
        """Both ends lose what is on its way; the dialing end reconnects afterwards."""
        if connection.acceptor is not None:
            self._break(connection)
        self._env.time.after(duration_s, self._connect, connection)

    # ---- inside

    def _connect_soon(self, connection: Connection) -> None:
        self._env.time.after(self._env.random() * CONNECT_S, self._connect, connection)

    def _connect(self, connection: Connection) -> None:
        acceptor = self._bound.get(connection.address)
        if acceptor is None or not connection.is_open or connection.acceptor is not None:
            return
        connection.acceptor = acceptor
        acceptor.accepted[connection.identity] = connection
        while connection.waiting:
            self._say_up(connection, connection.waiting.popleft())

    def _break(self, connection: Connection) -> None:
        acceptor, connection.acceptor = connection.acceptor, None
        connection.generation += 1
        connection.up.num_unread = connection.down.num_unread = 0
        if acceptor is not None and acceptor.accepted.get(connection.identity) is connection:
            del acceptor.accepted[connection.identity]

    def _shut(self, connection: Connection, keeps_flying: bool) -> None:
        connection.is_open = False
        connection.waiting.clear()
        self.connections.remove(connection)
        if keeps_flying:
            self._env.time.after(2 * CONNECT_S, self._break, connection)
        else:
            self._break(connection)

    def _carry(
        self, connection: Connection, way: Direction, sender: Process, reader: Process, link: str, data: bytes
    ) -> None:
        if way.num_unread >= self._max_unread or way.is_full:
            way.is_full = False
            self._full(sender, connection.link if sender is connection.dialer else connection.identity)
            return
        if way.num_to_lose:
            way.num_to_lose -= 1
            self._env.counters["frame lost"] += 1
            return
        if way.num_to_spoil:
            way.num_to_spoil -= 1
            self.num_spoiled += 1
            self._env.counters["frame spoiled"] += 1
            data = spoil(self._env, data)
        copies = 1
        if way.num_to_double:
            way.num_to_double -= 1
            self._env.counters["frame doubled"] += 1
            copies = 2
        time = self._env.time
        for _ in range(copies):
            when = time.now + self._latency_s * (0.2 + self._env.random())
            if when < way.last_at:
                when = way.last_at
            way.last_at = when
            way.num_unread += 1
            time.at(when, self._arrive, connection, way, connection.generation, reader, link, data)

    def _arrive(
        self, connection: Connection, way: Direction, generation: int, reader: Process, link: str, data: bytes
    ) -> None:
        """The frame is in the reader's socket: it survives what happens to the connection from here on."""
        if generation == connection.generation:
            reader.run(self.read_socket, connection, way, generation, reader, link, data)

    def read_socket(
        self, connection: Connection, way: Direction, generation: int, reader: Process, link: str, data: bytes
    ) -> None:
        if generation == connection.generation:
            way.num_unread -= 1
        if way is connection.down and reader.dialed.get(link) is not connection:
            return  # its socket was closed
        reader.receive(FrameArrived(link, data))

    def _full(self, sender: Process, link: str) -> None:
        self._env.counters["link full"] += 1
        self._env.time.after(self._env.random() * 1e-4, sender.hand, LinkFull(link))
