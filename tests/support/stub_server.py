"""A server that answers with exactly the bytes, waits and ends that a test writes down."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Self

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


class Wait(NamedTuple):
    """Nothing is written for so long."""

    duration_s: float


class Until(NamedTuple):
    """Nothing is written before this is set."""

    event: asyncio.Event


class Reset:
    """The connection ends by a reset."""


class Close:
    """The connection ends in order, whatever is left of the answer."""


Step = bytes | Wait | Until | Reset | Close


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  #: names in lower case
    body: Any  #: decoded JSON; None if there is none


Answer = Callable[[Asked], Iterable[Step]]


class StubServer:
    """`async with StubServer(answer) as server`: asks `answer` for the steps of each request."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.num_connections = 0  #: in all
        self.num_open = 0  #: requests being answered
        self.most_open = 0
        self.opened = asyncio.Condition()  #: notified whenever `num_open` changed
        self._answer = answer
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls is not None else ''}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls, backlog=4096)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.num_connections += 1
        try:
            async for asked in requests_of(reader):
                self.asked.append(asked)
                await self._count(+1)
                try:
                    await self._perform(self._answer(asked), writer)
                finally:
                    await self._count(-1)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _count(self, change: int) -> None:
        async with self.opened:
            self.num_open += change
            self.most_open = max(self.most_open, self.num_open)
            self.opened.notify_all()

    async def _perform(self, steps: Iterable[Step], writer: asyncio.StreamWriter) -> None:
        for step in steps:
            match step:
                case bytes():
                    writer.write(step)
                    await writer.drain()
                case Wait(duration_s=duration_s):
                    await asyncio.sleep(duration_s)
                case Until(event=event):
                    await event.wait()
                case Reset():
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                    raise ConnectionResetError
                case Close():
                    raise ConnectionAbortedError


async def requests_of(reader: asyncio.StreamReader) -> AsyncIterator[Asked]:
    while True:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        yield Asked(method, path, headers, json.loads(body) if body else None)


def whole(status: str, body: Any, content_type: str = "application/json", headers: str = "") -> bytes:
    """An answer of known length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def chat_event(content: str | None = None, finish: str | None = None, usage: Any = None, **delta: Any) -> bytes:
    """A chunk of a chat completion."""
    said = dict(delta) if content is None else {"content": content, **delta}
    fields = {"id": "chat-1", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}
    return event(fields if usage is None else {**fields, "usage": usage})


def usage_event(num_input: int, num_output: int, num_cached: int | None = None) -> bytes:
    usage: dict[str, Any] = {"prompt_tokens": num_input, "completion_tokens": num_output}
    if num_cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": num_cached}
    return event({"id": "chat-1", "choices": [], "usage": usage})


def good_stream(texts: Iterable[str] = ("one", " two"), num_tokens: int = 2) -> list[bytes]:
    """The events of a chat that ends as it should."""
    said = [chat_event(text) for text in texts]
    return [chat_event("", role="assistant"), *said, chat_event("", "stop"), usage_event(7, num_tokens, 3), DONE]


def streamed(events: Iterable[Step]) -> list[Step]:
    """Events as a chunked answer; other steps stay what they are."""
    steps = (chunked(step) if isinstance(step, bytes) else step for step in events)
    return [STREAM_HEAD, *steps, LAST_CHUNK]


def models(*names: str) -> bytes:
    return whole("200 OK", {"object": "list", "data": [{"id": name} for name in names]})


def answering(steps: Callable[[Asked], Iterable[Step]]) -> Callable[[Asked], Iterable[Step]]:
    """What a chat is answered with; the model's name is m."""
    return lambda asked: [models("m")] if asked.method == "GET" else steps(asked)
