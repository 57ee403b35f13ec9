"""Boards as text: for a terminal and for a document, and what changed between two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.board_lines import Board, Line, ScriptResult, changes
from bench.table import markdown_table, table_text

BEGIN, END = "<!-- board: begin -->", "<!-- board: end -->"
HEADS = ("question", "unit", "ours", "peers", "× best peer", "limit", "of it")
EXPLANATION = "× best peer and of it: above 1 is better, whether more or less of the unit is."


def as_text(board: Board) -> str:
    """One table, with the script before each question."""
    rows = [[f"{result.script}: {row[0]}", *row[1:]] for result in board.results for row in _rows(result)]
    return "\n".join([_origin(board), table_text(HEADS, rows), EXPLANATION])


def as_markdown(board: Board) -> str:
    """One table for each script."""
    parts = [_origin(board)]
    for result in board.results:
        flags = " ".join(result.command) or "with its defaults"
        parts.append(f"### {result.script}\n\n`bench/{result.script}.py`, {flags}; {result.elapsed_s:.0f} s.")
        parts.append(markdown_table(HEADS, list(_rows(result))))
    return "\n\n".join([*parts, EXPLANATION])


def changes_text(board: Board, before: Board) -> str:
    heads = ("question", "unit", "before", "now", "× as good", "")
    rows = [
        (
            f"{change.script}: {change.line.question}",
            change.line.unit,
            number(change.before),
            number(change.line.ours),
            times(change.ratio),
            change.verdict,
        )
        for change in changes(board, before)
    ]
    return f"against the board of {before.began_at}:\n{table_text(heads, rows)}"


def replace_section(document: Path, text: str | None) -> None:
    """Put it between the marks; None: only see that they are there. Raises ValueError, and OSError."""
    whole = document.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{document} lacks the marks {BEGIN} and {END}")
    if text is not None:
        document.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def number(value: float) -> str:
    """Three figures that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _rows(result: ScriptResult) -> Iterator[list[str]]:
    if result.failure:
        yield [f"FAILED: {result.failure}", *[""] * (len(HEADS) - 1)]
    for line in result.lines:
        peers = ", ".join(f"{name} {number(value)}" for name, value in line.peers.items())
        yield [
            line.question,
            line.unit,
            number(line.ours),
            peers,
            times(line.ratio),
            _limit(line),
            times(line.of_limit),
        ]


def _limit(line: Line) -> str:
    return "" if line.limit is None else f"{number(line.limit)} ({line.limit_name})"


def _origin(board: Board) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in board.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in board.versions.items())
    return f"{board.began_at}; {machine}; {versions}; load before: {board.load_before:g}"
