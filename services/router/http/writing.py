"""Writes answers to a client that may read slowly, or not at all, or be gone."""

from __future__ import annotations

import asyncio
import socket
import struct

from aiohttp import web

from baton.core.errors import Reason, RequestFailed


class ClientLost(RequestFailed):
    """Nobody reads the answer any more."""


class AnswerWriter:
    """One answer. Every write has the stall deadline: a client whose socket stays full that long is cut off."""

    def __init__(self, request: web.Request, stall_timeout_s: float) -> None:
        self._request = request
        self._stall_timeout_s = stall_timeout_s
        self.response: web.StreamResponse | None = None  #: set when the head is out

    async def begin_stream(self, headers: dict[str, str]) -> None:
        """Send the head of a stream of server-sent events."""
        response = web.StreamResponse(headers={"Cache-Control": "no-cache", **headers})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        response.enable_chunked_encoding()
        self.response = response
        await self._within_stall(response.prepare(self._request))

    async def write(self, data: bytes) -> None:
        """Append to the stream; returns when little enough is waiting in the socket's buffer."""
        if self.response is None:
            raise ClientLost(Reason.INTERNAL, "the stream has not begun")
        await self._within_stall(self.response.write(data))

    async def end(self) -> None:
        """End the stream."""
        if self.response is not None:
            await self._within_stall(self.response.write_eof())

    async def send(self, response: web.Response) -> None:
        """A whole answer."""
        self.response = response
        await self._within_stall(response.prepare(self._request))
        await self._within_stall(response.write_eof())

    async def _within_stall(self, writing: object) -> None:
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                await writing  # type: ignore[misc]
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
