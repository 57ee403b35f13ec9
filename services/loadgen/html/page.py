"""One file of HTML: template, style, script and data. Nothing is loaded, and nothing but its own script can run."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import msgspec

from baton.core.metrics.definitions import UNITS
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.report import Report
from baton.services.loadgen.html.shapes import QUANTILES, shapes
from baton.services.loadgen.html.terms import BOUNDS, FIGURES, OF_A_RUN, PERCENTILES

PACKAGE = "baton.services.loadgen.html"
STYLES = ("page.css", "charts.css")
#: in this order: what a file calls while it is read stands before it
SCRIPTS = ("nodes.js", "numbers.js", "frame.js", "over_time.js", "distribution.js", "timeline.js", "frontier.js",
           "head.js", "tables.js", "page.js")  # fmt: skip
#: the characters that could end the element which holds the data, or begin another
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(reports: Sequence[Report], facts: Sequence[Sequence[RequestFacts]]) -> str:
    """One report is a run, several are a sweep; facts belong to the report at their place.

    Raises ValueError without a report, or where their numbers differ.
    """
    if not reports:
        raise ValueError("a page needs at least one report")
    points = [{"report": report, "shapes": shapes(rows)} for report, rows in zip(reports, facts, strict=True)]
    title = ": ".join(filter(None, (reports[0].run.model, "load report")))
    return assemble(title, {"points": points, "terms": _terms()}, joined(STYLES), joined(SCRIPTS))


def assemble(title: str, data: object, style: str, script: str) -> str:
    """A page whose script draws the data. The title is text; style and script are ours."""
    return Template(joined(("page.html",)).lstrip()).substitute(
        policy=_policy(style, script), title=html.escape(title), style=style, data=_embedded(data), script=script
    )


def joined(names: Sequence[str], package: str = PACKAGE) -> str:
    """Files of a package, one after the other."""
    return "\n" + "\n".join((files(package) / name).read_text(encoding="utf-8") for name in names)


def _terms() -> dict[str, Any]:
    return {
        "figures": {
            name: {"title": term.title, "unit": UNITS[name], "definition": term.definition}
            for name, term in FIGURES.items()
        },
        "run": OF_A_RUN,
        "bounds": BOUNDS,
        "percentiles": PERCENTILES,
        "quantiles": QUANTILES,
    }


def _embedded(data: object) -> str:
    text = msgspec.json.encode(data).decode()
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _policy(style: str, script: str) -> str:
    """Of the page's content: the style and the script with these hashes, and nothing else."""
    return (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
