"""A browser with the built-in page open, in front of the scripted machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from baton.services.router.http.auth import ApiKeys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig
from tests.support.browser import open_page


class Tab:
    """One tab. What it asks of other servers is not sent; it and every complaint of the page are kept."""

    def __init__(self, rig: Rig, page: Any) -> None:
        self.rig = rig
        self.page = page
        self.foreign: list[str] = []
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)

    async def open(self) -> None:
        await self.page.route("**/*", self._pass)
        await self.page.goto(self.rig.url + "/")

    async def send(self, text: str) -> None:
        await self.page.fill("#message", text)
        await self.page.press("#message", "Enter")

    async def text(self, selector: str) -> str:
        return await self.page.inner_text(selector)

    async def shows(self, selector: str, text: str) -> None:
        """Wait until the first element that matches has this text and no other."""
        find = "([selector, text]) => document.querySelector(selector)?.innerText === text"
        await self.page.wait_for_function(find, arg=[selector, text])

    async def _pass(self, route: Any) -> None:
        if route.request.url.startswith(self.rig.url + "/"):
            await route.continue_()
        else:
            self.foreign.append(route.request.url)
            await route.abort()

    def _hear(self, message: Any) -> None:
        is_status = "Failed to load resource" in message.text  # of an answer that a test asks for
        if message.type in ("error", "warning") and not is_status:
            self.complaints.append(message.text)


@contextlib.asynccontextmanager
async def open_tab(
    model: RouterModel, profile: Path, keys: ApiKeys | None = None, scheme: str = "light", width: int = 1280
) -> AsyncIterator[Tab]:
    """On the way out: nothing was asked of another server, and the page did not complain."""
    async with open_rig(model, keys, stop_grace_s=0.5) as rig, open_page(profile, scheme, width) as page:
        tab = Tab(rig, page)
        await tab.open()
        yield tab
    assert tab.foreign == []
    assert tab.complaints == []


@pytest_asyncio.fixture
async def tab(model: RouterModel, tmp_path: Path) -> AsyncIterator[Tab]:
    async with open_tab(model, tmp_path / "profile") as opened:
        await opened.shows("#state", "Ready")
        yield opened
