"""A browser with a report open, from a file."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
LIMIT_MS = 20_000.0  #: of anything that the page is waited for


@contextlib.asynccontextmanager
async def open_report(text: str, folder: Path, scheme: str = "light", width: int = 1280) -> AsyncIterator[Any]:
    """On the way out: nothing but the file was asked for, and the page did not complain."""
    playwright_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    asked: list[str] = []
    complaints: list[str] = []
    async with playwright_api.async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            folder / "profile",
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            headless=True,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
        )
        try:
            page = context.pages[0]
            page.set_default_timeout(LIMIT_MS)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda message: complaints.append(message.text))
            page.on("request", lambda request: asked.append(request.url))
            await page.goto(file.as_uri())
            await page.wait_for_function(DRAWN)
            yield page
        finally:
            await context.close()
    assert asked == [file.as_uri()]
    assert complaints == []


#: every plot has something in it, and so does the timeline, if there is one
DRAWN = """() => document.querySelector("main")
  && [...document.querySelectorAll("svg.plot")].every((plot) => plot.hasAttribute("viewBox"))"""
