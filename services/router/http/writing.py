"""Writes answers to a client that may read slowly, or not at all, or be gone."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Iterable
from typing import Protocol, runtime_checkable

from aiohttp import HttpVersion11, web

from baton.core.errors import InvariantViolated, Reason, RequestFailed

BUFFER_BYTES = 32 << 10  #: half of what a transport buffers before its writers wait
HEAD_BYTES = 4 << 10  #: no answer's head has more


class ClientLost(RequestFailed):
    """Nobody reads the answer any more."""


@runtime_checkable
class WaitsForRoom(Protocol):
    """A connection that knows when its socket takes more."""

    async def has_room(self) -> None:
        """Returns when it does; raises OSError when it is lost."""


class EventStream(web.StreamResponse):
    """Its head goes out with the first events, in one write."""

    _send_headers_immediately = False


class AnswerWriter:
    """One answer. Whoever waits has the stall deadline: a client whose socket stays full that long is cut off."""

    def __init__(self, request: web.Request, stall_timeout_s: float) -> None:
        self._request = request
        self._stall_timeout_s = stall_timeout_s
        self._is_chunked = request.version >= HttpVersion11
        self.response: web.StreamResponse | None = None  #: set when the head is out

    async def begin_stream(self, headers: dict[str, str], data: bytes) -> None:
        """Send the head of a stream of server-sent events, and the first of them."""
        response = EventStream(headers={"Cache-Control": "no-cache", **headers})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        if self._is_chunked:
            response.enable_chunked_encoding()
        self.response = response
        await self._written(response.prepare(self._request), 0)
        await self._written(response.write(data), len(data))

    def write_now(self, data: bytes) -> None:
        """Append to a stream that has begun. Never waits: look at `is_full` afterwards."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ClientLost(Reason.ABORTED)
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    @property
    def is_full(self) -> bool:
        """Whether the socket's buffer holds as much as it should."""
        return self._request.protocol.writing_paused

    async def emptied(self) -> None:
        """Until there is room again."""
        connection = self._request.protocol
        if not isinstance(connection, WaitsForRoom):
            raise InvariantViolated("an answer is written to a connection of another kind")
        await self._within_stall(connection.has_room())

    async def end(self, data: bytes) -> None:
        """End a stream that has begun, with these last events, in one write."""
        if self.response is not None:
            await self._written(self.response.write_eof(data), len(data))

    async def send(self, response: web.Response) -> None:
        """A whole answer."""
        self.response = response
        await self._written(response.prepare(self._request), 0)
        await self._written(response.write_eof(), response.content_length or 0)

    async def send_pieces(self, response: web.StreamResponse, pieces: Iterable[bytes]) -> None:
        """A whole answer of a known length."""
        self.response = response
        await self._written(response.prepare(self._request), 0)
        for piece in pieces:
            await self._written(response.write(piece), len(piece))
        await self._written(response.write_eof(), 0)

    async def _written(self, writing: Awaitable[object], num_bytes: int) -> None:
        """Without a timer where the socket's buffer has so much room that nothing waits."""
        transport = self._request.transport
        if transport is None or transport.get_write_buffer_size() + num_bytes + HEAD_BYTES > BUFFER_BYTES:
            await self._within_stall(writing)
            return
        try:
            await writing
        except OSError:
            raise ClientLost(Reason.ABORTED) from None

    async def _within_stall(self, writing: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                await writing
        except TimeoutError:
            cut_off(self._request.transport)
            raise ClientLost(Reason.STALLED) from None
        except OSError:
            raise ClientLost(Reason.ABORTED) from None


def cut_off(transport: asyncio.Transport | None) -> None:
    """Reset the connection, so that the megabytes that its socket holds go at once and are not offered any longer."""
    if transport is None:
        return
    accepted = transport.get_extra_info("socket")
    if accepted is not None:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
