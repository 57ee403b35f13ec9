"""What a study's page shows, and the page. It is drawn with the parts of the load report's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from baton.services.loadgen.html.page import STYLES, assemble, joined

PACKAGE = "baton.services.sim.html"
PARTS = ("nodes.js", "numbers.js", "frame.js")  #: of the load report
OWN = ("chart.js", "study.js")

Point = tuple[float, float, float | None, float | None]  #: x, y, and the ends of y's interval


class Column(NamedTuple):
    """Of a table."""

    title: str
    is_number: bool = False


class Line(NamedTuple):
    """One deployment in a chart: its points in the order in which they are joined."""

    name: str
    points: Sequence[Point]
    labels: Sequence[str] = ()  #: what each point is, where it is not its x


class Chart(NamedTuple):
    """Units are "s", "share" or "count", or whatever is written after a number of x."""

    title: str
    note: str
    x_unit: str
    y_unit: str
    lines: Sequence[Line]
    bound: float | None = None  #: of y, drawn across
    x_bound: float | None = None
    turns: Sequence[tuple[float, float, float]] = ()  #: ranges of x with their middles, drawn as bands
    is_line: bool = True  #: points are joined


class TableOf(NamedTuple):
    """Rows of texts."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Everything on it is text or numbers; nothing is markup."""

    kind: str
    title: str
    verdict: str
    facts: Sequence[tuple[str, str]]
    note: str = ""
    charts: Sequence[Chart]
    tables: Sequence[TableOf]
    snippet: str = ""  #: a file of settings
    settings: Sequence[tuple[str, Sequence[tuple[str, Any]]]] = ()  #: by group
    warnings: Sequence[str] = ()


def render(page: Page) -> str:
    data = {
        "kind": page.kind,
        "title": page.title,
        "verdict": page.verdict,
        "facts": page.facts,
        "note": page.note,
        "charts": [{**chart._asdict(), "lines": [line._asdict() for line in chart.lines]} for chart in page.charts],
        "tables": [
            {"title": table.title, "columns": [column._asdict() for column in table.columns], "rows": table.rows}
            for table in page.tables
        ],
        "snippet": page.snippet,
        "settings": page.settings,
        "warnings": page.warnings,
    }
    style = joined(STYLES) + joined(("study.css",), PACKAGE)
    return assemble(f"{page.title}: {page.kind.lower()}", data, style, joined(PARTS) + joined(OWN, PACKAGE))
