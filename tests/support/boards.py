"""Boards that were never measured."""

from __future__ import annotations

from typing import Any

from bench.board_lines import Board, ScriptResult

MACHINE: dict[str, Any] = {"processor": "one", "cores": 2, "memory_gib": 8.0, "system": "Linux 6"}


def board_of(*results: ScriptResult) -> Board:
    return Board(
        machine=MACHINE,
        versions={"baton": "1", "python": "3.11"},
        began_at="2020-01-01T00:00:00Z",
        load_before=0.1,
        results=list(results),
    )
