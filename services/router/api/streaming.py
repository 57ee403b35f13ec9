"""Writes a streamed answer: each time the loop comes by, all that has come since, in one piece.

Once the head is out, what comes is written from a callback of the loop and no task is woken for it; the handler's own
task waits for the end, for room in the client's socket, or, with log-probabilities, takes a bounded share at a time.
"""

from __future__ import annotations

import asyncio
import sys

from baton.services.router.api.envelope import Shape
from baton.services.router.http.access_log import Entry
from baton.services.router.http.writing import AnswerWriter
from baton.services.router.streams import RequestStream

SCORED_TOKENS_PER_WRITE = 128  #: with log-probabilities a token costs some 50 microseconds of the loop's time


class Streaming:
    """One answer. `run` returns when it is written; ClientLost when nobody reads it."""

    def __init__(
        self, shape: Shape, stream: RequestStream, writer: AnswerWriter, entry: Entry, *, is_scored: bool
    ) -> None:
        self._shape = shape
        self._stream = stream
        self._writer = writer
        self._entry = entry
        self._is_scored = is_scored
        self._max_tokens = SCORED_TOKENS_PER_WRITE if is_scored else sys.maxsize
        self._is_complete = False
        self._last = b""  #: the end, once it is complete and not written
        self._paused: asyncio.Future[None] | None = None  #: while callbacks write: done when they cannot go on

    async def run(self) -> None:
        """Raises the failure of a request of which nothing has been written."""
        await self._begin()
        while not self._is_complete:
            if self._writer.is_full:
                await self._writer.emptied()
            elif not self._is_scored:
                await self._write_from_callbacks()
                continue
            elif self._stream.has_more:
                await asyncio.sleep(0)
            else:
                await self._stream.changed()
            self._write()
        if self._writer.is_full:
            await self._writer.emptied()
        await self._writer.end(self._last)

    async def _begin(self) -> None:
        data = b""
        while not data and not self._is_complete:
            await self._stream.changed()
            data = self._events()
            if self._is_complete and not data and self._stream.failure is not None:
                self._entry.code = self._stream.failure.code or ""
                raise self._stream.failure
        if self._is_complete:
            data += self._closing()
        self._entry.placement = self._stream.placement
        await self._writer.begin_stream(self._entry.headers(), data)

    def _events(self) -> bytes:
        """Those of what has come."""
        data = self._shape.part(self._stream.take(self._max_tokens))
        self._is_complete = self._stream.is_over and not self._stream.has_more
        return data

    def _closing(self) -> bytes:
        """What ends the stream."""
        if self._stream.failure is not None:
            self._entry.code = self._stream.failure.code or ""
        return self._shape.last_part()

    def _write(self) -> None:
        """Write what has come; the end is kept, to be written with the mark that nothing follows."""
        data = self._events()
        if self._is_complete:
            self._last = data + self._closing()
        elif data:
            self._writer.write_now(data)

    async def _write_from_callbacks(self) -> None:
        """Until the answer is complete or the socket is full."""
        self._paused = asyncio.get_running_loop().create_future()
        self._stream.on_change(self._on_change)
        try:
            await self._paused
        finally:
            self._stream.on_change(None)
            self._paused = None

    def _on_change(self) -> None:
        if self._paused is None or self._paused.done():
            return
        try:
            self._write()
        except Exception as error:
            self._paused.set_exception(error)
            return
        if self._is_complete or self._writer.is_full:
            self._paused.set_result(None)
