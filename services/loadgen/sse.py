"""Server-sent events out of bytes as they come: the same events however the bytes are cut.

What the standard lets a reader skip without a word (an unknown field) is said here, since a measured server that sends
it is broken. Bytes after the last blank line are no event.
"""

from __future__ import annotations

import msgspec

from baton.core.errors import ServingError

MAX_EVENT_BYTES = 16 << 20
MARK = b"\xef\xbb\xbf"  #: of UTF-8; may precede the first event
SHOWN_BYTES = 60  #: of a line that is quoted in an error


class SseMalformed(ServingError):
    """Bytes that are no stream of events, or an event beyond MAX_EVENT_BYTES."""


class Event(msgspec.Struct, frozen=True, gc=False):
    data: bytes  #: its data lines, joined by line feeds
    name: bytes = b""  #: its `event` field


class EventParser:
    """Keeps what is not yet a whole line, and the fields of the event that is not yet over."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  #: pieces of the line that has begun
        self._num_bytes = 0  #: of the event that has begun
        self._ends_in_return = False  #: a line feed that comes next belongs to the last line's end
        self._data: list[bytes] = []
        self._name = b""
        self._is_first = True  #: no line was read yet

    @property
    def is_between_events(self) -> bool:
        """Whether an end of the stream here would cut nothing off."""
        return not (self._rest or self._data or self._name)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises SseMalformed."""
        if b"\r" in data or self._ends_in_return:
            data = self._with_line_feeds(data)
        if b"\n" not in data:
            self._keep(data)
            return []
        if self._rest:
            data = b"".join((*self._rest, data))
            self._rest.clear()
        lines = data.split(b"\n")
        last = lines.pop()
        events: list[Event] = []
        for line in lines:
            self._take_line(line, events)
        self._num_bytes = sum(map(len, self._data)) if self._data else 0
        if last:
            self._keep(last)
        return events

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._rest.append(piece)
            self._grow(len(piece))

    def _grow(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        if self._num_bytes > MAX_EVENT_BYTES:
            raise SseMalformed(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _with_line_feeds(self, data: bytes) -> bytes:
        """CR LF and a lone CR are ends of a line too."""
        if self._ends_in_return and data.startswith(b"\n"):
            data = data[1:]
            self._ends_in_return = False
        if data:
            self._ends_in_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take_line(self, line: bytes, events: list[Event]) -> None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(MARK)
        if not line:
            if self._data:
                events.append(Event(b"\n".join(self._data), self._name))
                self._data.clear()
            self._name = b""
            return
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field not in (b"", b"id", b"retry"):  # a line that begins with a colon is a comment
            raise SseMalformed(f"no field of an event: {line[:SHOWN_BYTES]!r}")
