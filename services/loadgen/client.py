"""The HTTP client of a load: as many connections as requests are open, no retries, and every request ends in one fact.

It stands on asyncio's transports and not on aiohttp's client: there a chunk goes through a buffer and is seen when the
turn of a waiting task comes; here it is stamped in the call that read it, which also costs less.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

from baton.core.metrics.facts import Failure
from baton.services.loadgen.client_connection import Clock, Connection
from baton.services.loadgen.client_exchange import Exchange
from baton.services.loadgen.target import Target, address_of, headers_of

#: A server may close a connection that rests, and a request sent meanwhile would be lost by this side's doing: the
#: shortest rest that servers in use allow is 5 s.
MAX_REST_S = 3.0


class Client:
    """Sends bodies to one target. `ended` is called once for each exchange, in the loop's own turns."""

    def __init__(self, target: Target, clock: Clock, ended: Callable[[Exchange], None]) -> None:
        """Raises TargetInvalid."""
        self._target = target
        self._clock = clock
        self._ended = ended
        self._address = address_of(target.url)
        self._head = request_head(target)
        self._tls = tls_context(target) if self._address.is_tls else None
        self._hosts: list[str] = []  #: addresses of the server, the one that answered last first
        self._idle: list[Connection] = []  #: the one used last is last
        self._connections: set[Connection] = set()
        self._connecting: dict[Exchange, asyncio.Task[None]] = {}
        self._open: dict[Exchange, Connection] = {}

    @property
    def num_open(self) -> int:
        return len(self._open) + len(self._connecting)

    @property
    def num_connections(self) -> int:
        return len(self._connections)

    async def start(self) -> None:
        """Look the server's name up once. Raises OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            self._address.host, self._address.port, type=socket.SOCK_STREAM
        )
        self._hosts = list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def send(self, exchange: Exchange, body: bytes) -> None:
        """Begin the exchange, on a connection that rests or on a new one; never calls `ended` before it returns."""
        exchange.dispatched_s = self._clock()
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        connection = self._take_idle()
        if connection is not None:
            self._carry(connection, exchange, request)
        else:
            task = asyncio.get_running_loop().create_task(self._connect_and_send(exchange, request))
            self._connecting[exchange] = task

    def cut_short(self, detail: str) -> None:
        """End every open exchange from this side, since the run is over."""
        for exchange, task in list(self._connecting.items()):
            task.cancel()
            del self._connecting[exchange]
            exchange.cancel(detail, self._clock(), is_cut_short=True)
            self._ended(exchange)
        for connection in list(self._open.values()):
            connection.cut_short(detail)

    async def close(self) -> None:
        """Close all connections; what is open is cut short."""
        self.cut_short("the client was closed")
        for connection in list(self._connections):
            connection.close()
        while self._connections:
            await asyncio.sleep(0)

    # of Connection's owner

    def exchange_ended(self, exchange: Exchange) -> None:
        self._open.pop(exchange, None)
        self._ended(exchange)

    def connection_idle(self, connection: Connection) -> None:
        self._idle.append(connection)

    def connection_gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _carry(self, connection: Connection, exchange: Exchange, request: bytes) -> None:
        self._open[exchange] = connection
        connection.send(exchange, request)

    def _take_idle(self) -> Connection | None:
        oldest_s = self._clock() - MAX_REST_S
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since_s >= oldest_s:
                return connection
            connection.close()
        return None

    async def _connect_and_send(self, exchange: Exchange, request: bytes) -> None:
        try:
            async with asyncio.timeout(self._target.connect_timeout_s):
                connection = await self._connect()
        except TimeoutError:
            self._not_connected(exchange, f"no connection within {self._target.connect_timeout_s:g} s")
        except OSError as error:
            self._not_connected(exchange, cause_of(error))
        else:
            del self._connecting[exchange]
            self._carry(connection, exchange, request)

    def _not_connected(self, exchange: Exchange, detail: str) -> None:
        del self._connecting[exchange]
        exchange.fail(Failure.CONNECT, detail, self._clock())
        self._ended(exchange)

    async def _connect(self) -> Connection:
        """Tries the server's addresses in turn. Raises OSError of the last one."""
        last: OSError = OSError("the server's name has no address")
        for host in tuple(self._hosts):
            try:
                _, connection = await asyncio.get_running_loop().create_connection(
                    self._new_connection,
                    host,
                    self._address.port,
                    ssl=self._tls,
                    server_hostname=self._address.host if self._tls is not None else None,
                )
            except OSError as error:
                last = error
                continue
            if self._hosts[0] != host:
                self._hosts.remove(host)
                self._hosts.insert(0, host)
            self._connections.add(connection)
            return connection
        raise last

    def _new_connection(self) -> Connection:
        target = self._target
        return Connection(self, self._clock, target.stall_timeout_s, target.total_timeout_s)


def cause_of(error: OSError) -> str:
    """Without the address that a loop puts in place of the system's own words."""
    if isinstance(error, ssl.SSLError) or not error.errno:
        return str(error)
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)  # of names: below 0


def request_head(target: Target) -> bytes:
    """All of a request's head up to the value of its last header, the length of the body. Raises TargetInvalid."""
    address = address_of(target.url)
    lines = [f"POST {address.prefix}{target.endpoint.path} HTTP/1.1", f"Host: {address.authority}"]
    lines += [f"{name}: {value}" for name, value in headers_of(target).items()]
    return "\r\n".join((*lines, "Content-Length: ")).encode()


def tls_context(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not target.verifies_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
