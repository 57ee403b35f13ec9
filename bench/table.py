"""Tables as text: for terminals, where columns are aligned, and for documents."""

from __future__ import annotations

from collections.abc import Sequence


def table_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Numbers stand at the right, words at the left."""
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    at_right = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in range(len(heads))]
    lines = []
    for row in (heads, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, at_right, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(table_text(heads, rows))


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))


def _is_number(cell: str) -> bool:
    return not cell or cell[0] in "0123456789+-±×–"
