"""An HTTP/1.1 response out of bytes as they come: its head, and the bytes of its body without their framing.

Written here and not taken from a library, because a chunk of a stream must cost little and be stamped before anything
looks at it: a library that hands a body to a waiting task does neither.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from baton.core.errors import ServingError

MAX_HEAD_BYTES = 64 << 10
MAX_LINE_BYTES = 4096  #: of a chunk's size with its extensions
BODILESS = (204, 304)


class HttpMalformed(ServingError):
    """Bytes that are no response of HTTP/1.1."""


class Head(NamedTuple):
    status: int
    headers: dict[str, str]  #: names in lower case
    keeps_alive: bool  #: the connection may be used again once the body is over


class Part(enum.Enum):
    """What comes next."""

    HEAD = enum.auto()
    LENGTH = enum.auto()  #: a body of known length
    CHUNKS = enum.auto()
    TRAILER = enum.auto()  #: after the last chunk
    UNTIL_CLOSE = enum.auto()
    OVER = enum.auto()


CHUNKS, TRAILER = Part.CHUNKS, Part.TRAILER  # a look-up in the enumeration costs as much as a chunk's slice
FIRST_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
NEXT_SIZE = re.compile(rb"\r\n" + FIRST_SIZE.pattern)  #: what ends the chunk before it, and its own size


class ResponseParser:
    """Reads one response. What comes after it is an error of whoever sent it."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self._part = Part.HEAD
        self._size_line = FIRST_SIZE  #: of the next chunk
        self._rest = b""  #: of the head, or of a line of the framing
        self._left = 0  #: bytes of the body, or of its chunk, that are to come

    @property
    def is_over(self) -> bool:
        return self._part is Part.OVER

    @property
    def can_end_here(self) -> bool:
        """Whether the end of the connection is the end of the body."""
        return self._part in (Part.UNTIL_CLOSE, Part.OVER)

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body among these. Raises HttpMalformed."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at = 0
        if self._part is CHUNKS:
            return self._take_chunks(data, at)
        if self._part is Part.HEAD:
            at = self._take_head(data)
            if at < 0:
                return b""
        if self._part is Part.OVER:
            self._check_end(data, at)
            return b""
        if self._part is Part.UNTIL_CLOSE:
            return data[at:] if at else data
        if self._part is Part.LENGTH:
            return self._take_length(data, at)
        return self._take_chunks(data, at)

    def _take_head(self, data: bytes) -> int:
        """Where the body begins; -1: the head is not over."""
        begin = 0
        while self.head is None:
            end = data.find(b"\r\n\r\n", begin)
            if end < 0:
                if len(data) - begin > MAX_HEAD_BYTES:
                    raise HttpMalformed(f"a head of more than {MAX_HEAD_BYTES} bytes")
                if not b"HTTP/1.".startswith(data[begin : begin + 7]):
                    raise HttpMalformed(f"no HTTP/1.1: {data[begin : begin + 40]!r}")
                self._rest = data[begin:]
                return -1
            head = parse_head(data[begin:end])
            begin = end + 4
            if head.status >= 200:  # others announce it
                self.head = head
                self._begin_body(head)
        return begin

    def _begin_body(self, head: Head) -> None:
        headers = head.headers
        length = headers.get("content-length")
        if head.status in BODILESS:
            self._part = Part.OVER
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._part = Part.CHUNKS
        elif "transfer-encoding" in headers:
            raise HttpMalformed(f"unknown transfer encoding {headers['transfer-encoding']!r}")
        elif length is None:
            self._part = Part.UNTIL_CLOSE
            self.head = head._replace(keeps_alive=False)
        elif not (length.isascii() and length.isdigit()):
            raise HttpMalformed(f"content length {length!r}")
        else:
            self._left = int(length)
            self._part = Part.LENGTH if self._left else Part.OVER

    def _take_length(self, data: bytes, at: int) -> bytes:
        body = data[at : at + self._left]
        self._left -= len(body)
        if not self._left:
            self._part = Part.OVER
            self._check_end(data, at + len(body))
        return body

    def _take_chunks(self, data: bytes, at: int) -> bytes:
        pieces: list[bytes] = []
        while self._part is CHUNKS and at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            line = self._size_line.match(data, at)
            if line is None:
                check_begun(data[at:], self._size_line)
                self._rest = data[at:]
                break
            at = line.end()
            self._left = int(line[1], 16)
            self._size_line = NEXT_SIZE
            if not self._left:
                self._part = Part.TRAILER
        if self._part is TRAILER:
            self._take_trailer(data, at)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_trailer(self, data: bytes, at: int) -> None:
        """Lines that may follow the last chunk, and the empty one that ends them."""
        if data.startswith(b"\r\n", at):
            end = at + 2
        else:
            found = data.find(b"\r\n\r\n", at)
            end = found + 4 if found >= 0 else -1
        if end >= 0:
            self._part = Part.OVER
            self._check_end(data, end)
        elif len(data) - at > MAX_HEAD_BYTES:
            raise HttpMalformed(f"a trailer of more than {MAX_HEAD_BYTES} bytes")
        else:
            self._rest = data[at:]

    def _check_end(self, data: bytes, at: int) -> None:
        if at < len(data) and self.head is not None:
            self.head = self.head._replace(keeps_alive=False)  # bytes that nobody asked for


def check_begun(data: bytes, size_line: re.Pattern[bytes]) -> None:
    """Bytes with which the line of a chunk's size begins. Raises HttpMalformed if nothing can make them one."""
    line = data
    if size_line is NEXT_SIZE:
        if not b"\r\n".startswith(data[:2]):
            raise HttpMalformed("a chunk is longer than it says")
        line = data[2:]
    if b"\n" in line or len(line) > MAX_LINE_BYTES:
        raise HttpMalformed(f"size of a chunk: {line[:40]!r}")


def parse_head(data: bytes) -> Head:
    """A head without its last empty line. Raises HttpMalformed."""
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit() and len(status) == 3):
        raise HttpMalformed(f"no HTTP/1.1: {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpMalformed(f"no header: {line[:40]!r}")
        headers[name.lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    keeps_alive = connection == "keep-alive" if version == "HTTP/1.0" else connection != "close"
    return Head(int(status), headers, keeps_alive)
