"""Azure's traces of 2023 and 2024: CSV with the columns `TIMESTAMP`, `ContextTokens` and `GeneratedTokens`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from baton.services.loadgen.traces.lines import broken, numbered_lines
from baton.services.loadgen.traces.records import TraceRecord

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read_azure(path: Path) -> Iterator[TraceRecord]:
    """Raises BadTrace. Times count from the first row."""
    rows = _rows(path)
    _, header = next(rows, (1, []))
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise broken(path, 1, f"{missing[0]}: no such column")
    places = [header.index(column) for column in COLUMNS]
    first: datetime | None = None
    for number, row in rows:
        if len(row) != len(header):
            raise broken(path, number, f"{len(row)} fields where {len(header)} are expected")
        when, num_input_tokens, num_output_tokens = (row[place] for place in places)
        at = _time(path, number, when)
        first = first or at
        if (at.tzinfo is None) != (first.tzinfo is None):
            raise broken(path, number, f"TIMESTAMP: {when!r} and the first row differ in having a time zone")
        yield TraceRecord(
            at_s=(at - first).total_seconds(),
            num_input_tokens=max(1, _count(path, number, "ContextTokens", num_input_tokens)),
            max_tokens=max(1, _count(path, number, "GeneratedTokens", num_output_tokens)),
        )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        yield number, [field.strip() for field in line.decode("utf-8", errors="replace").split(",")]


def _time(path: Path, number: int, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise broken(path, number, f"TIMESTAMP: {text!r} is no time") from None


def _count(path: Path, number: int, column: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise broken(path, number, f"{column}: {text!r} is no number of tokens")
    return int(text)
