"""One line for each thing worth telling: `key=value` pairs on standard error, bounded in number."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TextIO

import msgspec

from baton.core.events import Note

LINES_PER_SECOND = 50  #: of each kind; what is more is counted, not written


class Log:
    """Writes lines that begin with the time, the level and who writes."""

    def __init__(self, service: str, epoch: int, stream: TextIO | None = None) -> None:
        self._prefix = f"service={service} epoch={epoch}"
        self._stream = stream or sys.stderr
        self._second = 0
        self._written: dict[str, int] = {}  #: kind → lines in this second
        self._suppressed: dict[str, int] = {}  #: kind → lines that were not written

    def info(self, what: str, /, **fields: object) -> None:
        self.line("info", what, lambda: fields)

    def warn(self, what: str, /, **fields: object) -> None:
        self.line("warn", what, lambda: fields)

    def error(self, what: str, /, **fields: object) -> None:
        self.line("error", what, lambda: fields)

    def note(self, note: Note) -> None:
        """A machine's note: names the request where there is one."""
        self.line("info", note.what, lambda: note_fields(note))

    def flush(self) -> None:
        self._stream.flush()

    def line(self, level: str, what: str, fields: Callable[[], Mapping[str, object]]) -> None:
        """`fields` is asked only if there is room for the line."""
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._tell_suppressed(now)
            self._written.clear()
        count = self._written.get(what, 0)
        if level != "error" and count >= LINES_PER_SECOND:
            self._suppressed[what] = self._suppressed.get(what, 0) + 1
            return
        self._written[what] = count + 1
        self._write(now, level, what, fields())

    def _tell_suppressed(self, now: float) -> None:
        for what, count in self._suppressed.items():
            self._write(now, "warn", "lines not written", {"of": what, "count": count})
        self._suppressed.clear()

    def _write(self, now: float, level: str, what: str, fields: Mapping[str, object]) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        pairs = "".join(f" {name}={_value(value)}" for name, value in fields.items())
        self._stream.write(f"{stamp} level={level} {self._prefix} what={_value(what)}{pairs}\n")
        self._stream.flush()


def _value(value: object) -> str:
    """As it is if it needs no quotes; else as a JSON string, so that no value can begin a new line or pair."""
    text = _number(value) if isinstance(value, float) else str(value)
    plain = text.isprintable() and text != "" and " " not in text and '"' not in text and "=" not in text
    return text if plain else msgspec.json.encode(text).decode()


def _number(value: float) -> str:
    """To a millionth, however large: marks of several processes are compared on one clock of seconds."""
    text = f"{value:.6f}"
    return text.rstrip("0").rstrip(".")


def note_fields(note: Note) -> dict[str, object]:
    fields: dict[str, object] = {}
    if note.request_id:
        fields |= {"request": note.request_id, "attempt": note.attempt}
    if note.reason is not None:
        fields["reason"] = note.reason.name
    if note.peer:
        fields["peer"] = note.peer
    if note.why:
        fields["why"] = note.why
    if note.detail:
        fields["detail"] = note.detail
    return fields | note.numbers


class LogForwarder(logging.Handler):
    """Writes what libraries and handlers say through `logging`; a record's `fields` become pairs of the line."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = {logging.WARNING: "warn", logging.ERROR: "error"}.get(record.levelno, "info")
        self._log.line(level, record.name, lambda: record_fields(record))


def record_fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", None) or {"detail": record.getMessage()}
    if record.exc_info:
        fields = fields | {"story": "".join(traceback.format_exception(*record.exc_info)).rstrip()}
    return {name: value for name, value in fields.items() if value not in ("", None)}


def forward_logging(log: Log) -> None:
    """All of `logging` ends in this log: INFO and above of Baton, warnings of everyone else."""
    root = logging.getLogger()
    root.handlers[:] = [LogForwarder(log)]
    logging.getLogger("baton").setLevel(logging.INFO)
