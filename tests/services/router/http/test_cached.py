"""Answers that stay the same are made before they are asked for, and not by the loop's thread."""

from __future__ import annotations

import threading
from typing import Any

from aiohttp import web

from baton.services.router.http.app import create_app
from baton.services.router.http.cached import CachedAnswer
from baton.services.router.http.pages import Providers
from baton.services.router.http.routes import CACHED, Route, prepare, register
from tests.services.router.rig import Rig

NOBODY: Any = None


async def test_what_is_prepared_is_made_once_and_beside_the_loop() -> None:
    makers: list[threading.Thread] = []

    def make() -> bytes:
        makers.append(threading.current_thread())
        return b"{}"

    own, app = CachedAnswer(make, "application/json", {}), web.Application()
    register(app, (Route("GET", "/own", own.answer, "own", "", "application/json", cached=own),))
    await prepare(app)
    await prepare(app)
    assert await own.prepare() == b"{}"
    assert len(makers) == 1
    assert makers[0] is not threading.current_thread()


async def test_the_document_and_the_page_can_be_prepared(rig: Rig) -> None:
    app = create_app(rig.front, rig.front.config, Providers(NOBODY, NOBODY, NOBODY))
    await prepare(app)
    bodies = {await answer.prepare() for answer in app[CACHED]}
    for path in ("/openapi.json", "/"):
        async with rig.http.get(rig.url + path) as answer:
            assert await answer.read() in bodies
