"""What a board consists of: lines (a question, our figure, those of others), and when two boards may be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

FORMAT_VERSION = 1
NOISE = 0.1  #: a change of less between two runs says nothing


class Line(msgspec.Struct, frozen=True):
    """One question of one script."""

    question: str  #: says which line it is, too
    unit: str
    is_more_better: bool
    ours: float
    peers: dict[str, float] = {}
    limit: float | None = None  #: what this machine, or an aim, allows at best
    limit_name: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as good as the best peer; None without peers."""
        if not self.peers:
            return None
        best = max(self.peers.values()) if self.is_more_better else min(self.peers.values())
        return times_as_good(self.ours, best, self.is_more_better)

    @property
    def of_limit(self) -> float | None:
        """1: the limit is reached."""
        return None if self.limit is None else times_as_good(self.ours, self.limit, self.is_more_better)


class ScriptResult(msgspec.Struct, frozen=True, kw_only=True):
    """One script of one run."""

    script: str
    command: list[str]  #: its flags, without files
    peers: list[str] = []  #: others that were installed
    elapsed_s: float
    failure: str = ""  #: why there are no lines
    lines: list[Line] = []
    report: Any = None  #: the script's own JSON


class Board(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int = FORMAT_VERSION
    machine: dict[str, Any]
    versions: dict[str, str]
    began_at: str  #: ISO 8601, UTC
    load_before: float  #: processes that used a core in the minute before, on average
    results: list[ScriptResult]


class Change(msgspec.Struct, frozen=True):
    """One line of two boards."""

    script: str
    line: Line
    before: float

    @property
    def ratio(self) -> float | None:
        """How many times as good as before."""
        return times_as_good(self.line.ours, self.before, self.line.is_more_better)

    @property
    def verdict(self) -> str:
        if self.ratio is None or 1 / (1 + NOISE) <= self.ratio <= 1 + NOISE:
            return ""
        return "better" if self.ratio > 1 else "worse"


def times_as_good(ours: float, other: float, is_more_better: bool) -> float | None:
    """Above 1: better. None where one of them is 0."""
    if not ours or not other:
        return None
    return ours / other if is_more_better else other / ours


def differences(board: Board, before: Board) -> list[str]:
    """Why the two must not be compared without a word; none: they may."""
    names = sorted({*board.machine, *before.machine})
    reasons = [
        f"machines differ: {name} is {board.machine.get(name)!r}, was {before.machine.get(name)!r}"
        for name in names
        if board.machine.get(name) != before.machine.get(name)
    ]
    asked_before = {result.script: result.command for result in before.results}
    return reasons + [
        f"settings differ: {result.script} ran with {result.command}, before with {asked_before[result.script]}"
        for result in board.results
        if asked_before.get(result.script, result.command) != result.command
    ]


def changes(board: Board, before: Board) -> Iterator[Change]:
    """Of the lines that both have."""
    earlier = {(result.script, line.question): line for result in before.results for line in result.lines}
    for result in board.results:
        for line in result.lines:
            known = earlier.get((result.script, line.question))
            if known is not None and known.unit == line.unit:
                yield Change(result.script, line, known.ours)
