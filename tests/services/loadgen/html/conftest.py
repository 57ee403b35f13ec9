"""A browser with a report open, from a file."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.support.browser import open_page

#: every plot has something in it, and so does the timeline, if there is one
DRAWN = """() => document.querySelector("main")
  && [...document.querySelectorAll("svg.plot")].every((plot) => plot.hasAttribute("viewBox"))"""


@contextlib.asynccontextmanager
async def open_report(text: str, folder: Path, scheme: str = "light", width: int = 1280) -> AsyncIterator[Any]:
    """On the way out: nothing but the file was asked for, and the page did not complain."""
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    asked: list[str] = []
    complaints: list[str] = []
    async with open_page(folder / "profile", scheme, width) as page:
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(file.as_uri())
        await page.wait_for_function(DRAWN)
        yield page
    assert asked == [file.as_uri()]
    assert complaints == []
