"""A server of many streams at one pace, cheap enough to load a client: `python -m tests.support.paced_server PORT`.

Every stream gets a role event at once, then one chunk each `--every-ms`, at moments spread over the streams, then
finish reason, usage and end marker.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import cast

import uvloop

from tests.support.stub_server import DONE, LAST_CHUNK, STREAM_HEAD, chat_event, chunked, models, usage_event

SLICES = 20  #: of the period; the streams of one slice are written together


class Stream(asyncio.Protocol):
    """A connection: idle, or with a stream of which `num_left` chunks are to come."""

    def __init__(self, pace: Pace) -> None:
        self.num_left = 0
        self.transport: asyncio.Transport | None = None
        self._pace = pace
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, found, body = self._rest.partition(b"\r\n\r\n")
        if not found or self.transport is None:
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length or b"0"):
            return
        self._rest = b""
        if head.startswith(b"GET"):
            self.transport.write(models("m"))
            return
        self.transport.write(STREAM_HEAD + chunked(chat_event("", role="assistant")))
        self.num_left = self._pace.num_chunks
        self._pace.add(self)


class Pace:
    """Writes to all streams, each at its own moment of the period."""

    def __init__(self, num_chunks: int, every_s: float) -> None:
        self.num_chunks = num_chunks
        self._every_s = every_s
        self._slices: list[set[Stream]] = [set() for _ in range(SLICES)]
        self._num_added = 0
        self._chunk = chunked(chat_event(" word"))
        end = chat_event("", "stop") + usage_event(100, num_chunks) + DONE
        self._last = self._chunk + chunked(end) + LAST_CHUNK

    def add(self, stream: Stream) -> None:
        self._slices[self._num_added % SLICES].add(stream)
        self._num_added += 1

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            for streams in self._slices:
                due_s += self._every_s / SLICES
                await asyncio.sleep(due_s - loop.time())
                for stream in tuple(streams):
                    self._write(stream, streams)

    def _write(self, stream: Stream, streams: set[Stream]) -> None:
        stream.num_left -= 1
        if stream.transport is None or stream.num_left <= 0:
            streams.discard(stream)
        if stream.transport is not None:
            stream.transport.write(self._chunk if stream.num_left > 0 else self._last)


async def serve(port: int, num_chunks: int, every_s: float) -> None:
    pace = Pace(num_chunks, every_s)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Stream(pace), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await pace.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--every-ms", type=float, default=100.0)
    asked = parser.parse_args()
    uvloop.run(serve(asked.port, asked.chunks, asked.every_ms / 1000))
