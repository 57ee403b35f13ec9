"""The control links of one process: a bound ROUTER for whoever dials it, a DEALER for each link that it dials.

All sockets belong to the loop's thread. A frame that cannot be handed over at once is lost, and the node hears of it
(`LinkFull`, `LinkGone`), as a session repairs every loss in one way. Accepted links are named `name/epoch` after the
dialing process, whose key must belong to that name; dialed ones are named like their peer, which never holds a slash.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import zmq

from baton.core.errors import InvariantViolated
from baton.core.ids import Life
from baton.core.session.machine import Transmit
from baton.core.session.node import CloseLink, FrameArrived, LinkFull, LinkGone, OpenLink
from baton.core.wire.frames import MAX_FRAME_BYTES
from baton.services.transport.endpoints import EndpointRefused, check_dialed, has_ipv6_host, is_local
from baton.services.transport.keys import KeyRing, KeysUnusable
from baton.services.transport.reader import SocketReader
from baton.services.transport.zap import DOMAIN, Doorkeeper

_NOBLOCK = int(zmq.NOBLOCK)
_FIRST_PART = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
RECONNECT_MS = 50
MAX_RECONNECT_MS = 1000
PING_MS = 1000  #: ZeroMQ's own, so that a half-open connection is dialed again
PING_TIMEOUT_MS = 5000
HANDSHAKE_MS = 5000


class LinkLimits(NamedTuple):
    """Bounds of every socket."""

    queued_frames: int = 16384  #: in each direction of each link; more are lost
    linger_ms: int = 500  #: how long closing waits for what was said


class LinkCounters:
    """What happened to frames; only ever grows."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.full = 0  #: the link's queue was at its bound
        self.unroutable = 0  #: whoever had dialed was gone
        self.refused = 0  #: frames of strangers, or of no known shape
        self.unopened = 0  #: addresses that could not be dialed


class _Dialed(NamedTuple):
    socket: zmq.Socket[bytes]
    reader: SocketReader
    address: str


class Links:
    """See the module. `post` takes `FrameArrived`, `LinkFull` and `LinkGone`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        life: Life,
        ring: KeyRing,
        post: Callable[[Any], None],
        limits: LinkLimits | None = None,
    ) -> None:
        self.counters = LinkCounters()
        self._loop = loop
        self._identity = f"{life.name}/{life.epoch}".encode("ascii")
        self._ring = ring
        self._post = post
        self._limits = limits or LinkLimits()
        self._thread = threading.get_ident()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self._doorkeeper = Doorkeeper(loop, self._context, ring)
        self._dialed: dict[str, _Dialed] = {}  #: by link
        self._bound: zmq.Socket[bytes] | None = None
        self._bound_reader: SocketReader | None = None

    @property
    def num_refused_connections(self) -> int:
        return self._doorkeeper.num_refused

    def bind(self, endpoint: str, *, beyond_loopback: bool = False) -> str:
        """Listen there and return the endpoint as bound. Raises EndpointRefused, which names it."""
        self._check_thread()
        if not is_local(endpoint) and not beyond_loopback:
            raise EndpointRefused(f"{endpoint} can be reached from other machines: ask for it with --listen")
        socket = self._socket(zmq.ROUTER, endpoint)
        socket.router_mandatory = True
        socket.router_handover = True
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = self._ring.public, self._ring.secret
        socket.zap_domain = DOMAIN
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            socket.close()
            raise EndpointRefused(f"cannot listen on {endpoint}: {error.strerror}") from error
        self._bound = socket
        self._bound_reader = SocketReader(self._loop, socket, self._accepted)
        return socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def open(self, command: OpenLink) -> None:
        """Dial a peer. What cannot be dialed is counted; its frames are lost until the link is closed."""
        self._check_thread()
        try:
            self._dialed[command.link] = self._dial(command.link, command.address)
        except (EndpointRefused, KeysUnusable, zmq.ZMQError):
            self.counters.unopened += 1

    def close(self, command: CloseLink) -> None:
        self._check_thread()
        dialed = self._dialed.pop(command.link, None)
        if dialed is not None:
            dialed.reader.close()
            dialed.socket.close()

    def transmit(self, command: Transmit) -> None:
        """Hand a frame to its socket, or lose it and say so."""
        self._check_thread()
        dialed = self._dialed.get(command.link)
        if dialed is not None:
            self._send_dialed(command, dialed)
        elif "/" in command.link and self._bound is not None:
            self._send_accepted(command, self._bound)

    def shut(self) -> None:
        """Close all sockets; waits at most the linger time for what was said."""
        self._check_thread()
        for link in list(self._dialed):
            self.close(CloseLink(link))
        if self._bound is not None and self._bound_reader is not None:
            self._bound_reader.close()
            self._bound.close()
        self._doorkeeper.close()
        self._context.term()

    # ---- inside

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise InvariantViolated("a socket was used from a thread that does not own it")

    def _socket(self, kind: int, endpoint: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.sndhwm = socket.rcvhwm = self._limits.queued_frames
        socket.linger = self._limits.linger_ms
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        socket.setsockopt(zmq.HEARTBEAT_IVL, PING_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, PING_TIMEOUT_MS)
        socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        socket.ipv6 = has_ipv6_host(endpoint)
        return socket

    def _dial(self, link: str, address: str) -> _Dialed:
        check_dialed(address)
        server_key = self._ring.public_key_of(link)
        socket = self._socket(zmq.DEALER, address)
        socket.setsockopt(zmq.IDENTITY, self._identity)
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, MAX_RECONNECT_MS)
        socket.curve_serverkey = server_key
        socket.curve_publickey, socket.curve_secretkey = self._ring.public, self._ring.secret
        try:
            socket.connect(address)
        except zmq.ZMQError:
            socket.close(0)
            raise

        def answered(frames: list[zmq.Frame]) -> None:
            if len(frames) == 1:
                self._arrived(link, frames[0].bytes)
            else:
                self.counters.refused += 1

        return _Dialed(socket, SocketReader(self._loop, socket, answered), address)

    def _accepted(self, frames: list[zmq.Frame]) -> None:
        """A frame of whoever dialed this process: `[identity, frame]`."""
        link = frames[0].bytes.decode("latin-1")
        name, slash, _ = link.partition("/")
        if len(frames) != 2 or not slash or frames[1].get("User-Id") != name:
            self.counters.refused += 1
            return
        self._arrived(link, frames[1].bytes)

    def _arrived(self, link: str, data: bytes) -> None:
        self.counters.received += 1
        self._post(FrameArrived(link, data))

    def _send_dialed(self, command: Transmit, dialed: _Dialed) -> None:
        try:
            dialed.socket.send(command.data, _NOBLOCK)
        except zmq.Again:
            self.counters.full += 1
            self._renew(command.link, dialed)
            self._post(LinkFull(command.link))
            return
        self.counters.sent += 1
        dialed.reader.nudge()

    def _renew(self, link: str, full: _Dialed) -> None:
        """What is queued belongs to a session that ends now: a new socket starts empty, so that its Hello fits."""
        full.reader.close()
        full.socket.close(0)
        self._dialed[link] = self._dial(link, full.address)

    def _send_accepted(self, command: Transmit, bound: zmq.Socket[bytes]) -> None:
        try:
            bound.send(command.link.encode("latin-1"), _FIRST_PART)
            bound.send(command.data, _NOBLOCK)  # where the first part was taken, the rest is
        except zmq.Again:
            self.counters.full += 1
            self._post(LinkFull(command.link))
            return
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self.counters.unroutable += 1
            self._post(LinkGone(command.link))
            return
        self.counters.sent += 1
        if self._bound_reader is not None:
            self._bound_reader.nudge()
