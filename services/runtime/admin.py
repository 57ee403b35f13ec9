"""The loopback HTTP endpoint of a service: `/health` (a turn works), `/ready` (a request would work), `/metrics`,
`/trace?seconds=N` and `/clock` (what happened lately, and the clock of its times)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from baton.core.events import Wake
from baton.services.runtime.driver import Driver
from baton.services.runtime.metrics import Metrics
from baton.services.runtime.tracing import Tracing
from baton.services.transport.http_address import cannot_listen

TURN_LIMIT_S = 2.0  #: a turn that takes longer than this to come is no health
DEFAULT_TRACE_S = 10.0
Page = Callable[[Mapping[str, str]], msgspec.Struct]


class AdminPages:
    """`readiness()` and `sickness()` say why not, or nothing."""

    def __init__(
        self,
        driver: Driver,
        metrics: Metrics,
        readiness: Callable[[], str],
        sickness: Callable[[], str] = lambda: "",
        tracing: Tracing | None = None,
        others: Mapping[str, Page] | None = None,
    ) -> None:
        self._driver = driver
        self._metrics = metrics
        self._readiness = readiness
        self._sickness = sickness
        self._tracing = tracing
        self._others = others or {}  #: name → what is shown as JSON, made from the query

    async def health(self, request: web.Request) -> web.Response:
        why = self._sickness() or ("" if await turn_works(self._driver) else "no turn came")
        return _answer("healthy", why)

    async def ready(self, request: web.Request) -> web.Response:
        return _answer("ready", self._readiness())

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def clock(self, request: web.Request) -> web.Response:
        return _json(_tracing(self._tracing).clock())

    async def trace(self, request: web.Request) -> web.Response:
        snapshot = _tracing(self._tracing).snapshot(_seconds(request.query.get("seconds", "")))
        if snapshot is None:
            raise web.HTTPNotFound(text="nothing is recorded: service.trace_events = 0\n")
        return _json(snapshot)

    async def start(self, port: int) -> tuple[web.AppRunner, int]:
        """Serve on loopback; return the runner (to clean up) and the port, chosen by the system if `port` is 0.

        Raises EndpointRefused.
        """
        app = web.Application()
        pages = {"health": self.health, "ready": self.ready, "metrics": self.metrics}
        pages |= {"clock": self.clock, "trace": self.trace}
        app.add_routes([web.get(f"/{name}", page) for name, page in pages.items()])
        app.add_routes([web.get(f"/{name}", _shown(page)) for name, page in self._others.items()])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as error:
            await runner.cleanup()
            raise cannot_listen("127.0.0.1", port, "--admin-port", error) from error
        return runner, runner.addresses[0][1]


def _shown(page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        try:
            return _json(page(request.query))
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error

    return answer


async def turn_works(driver: Driver) -> bool:
    """Whether the node takes an event that is posted now."""
    before = driver.num_events
    driver.post(Wake())
    try:
        async with asyncio.timeout(TURN_LIMIT_S):
            while driver.num_events == before:
                await asyncio.sleep(0)
    except TimeoutError:
        return False
    return True


def _tracing(tracing: Tracing | None) -> Tracing:
    if tracing is None:
        raise web.HTTPNotFound
    return tracing


def _seconds(text: str) -> float:
    try:
        seconds = float(text) if text else DEFAULT_TRACE_S
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise web.HTTPBadRequest(text="seconds: a positive number\n")
    return seconds


def _json(value: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _answer(what: str, why_not: str) -> web.Response:
    """In the shape of the router's pages."""
    body = msgspec.json.encode({what: not why_not, "reason": why_not})
    return web.Response(body=body, status=503 if why_not else 200, content_type="application/json")
