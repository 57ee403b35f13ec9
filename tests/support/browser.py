"""Chromium for the tests of pages: how it is started, and what it finds wrong with how a page looks."""

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
LIMIT_MS = 20_000.0  #: of anything that a page is waited for
HEIGHT = 800  #: of the window
#: gives a list: what sticks out of the window or of its own box, and texts and figures that lie on each other
FLAWS = Path(__file__).with_name("page_flaws.js").read_text(encoding="utf-8")
#: gives [the least contrast of a text with what is behind it, that text]
CONTRAST = Path(__file__).with_name("page_contrast.js").read_text(encoding="utf-8")
MIN_CONTRAST = 4.5  #: WCAG 2, level AA


@contextlib.asynccontextmanager
async def open_page(profile: Path, scheme: str = "light", width: int = 1280) -> AsyncIterator[Any]:
    """An empty page of a browser of its own. Skips the test where playwright or Chromium is missing."""
    playwright_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    async with playwright_api.async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            headless=True,
            viewport={"width": width, "height": HEIGHT},
            color_scheme=scheme,
        )
        try:
            page = context.pages[0]
            page.set_default_timeout(LIMIT_MS)
            yield page
        finally:
            await context.close()
