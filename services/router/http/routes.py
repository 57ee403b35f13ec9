"""The one table of routes: what the application registers, and what `/openapi.json` tells of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

from aiohttp import web

from baton.services.router.http.cached import CachedAnswer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CACHED: web.AppKey[tuple[CachedAnswer, ...]] = web.AppKey("CACHED")  #: of all routes


class Route(NamedTuple):
    """One row. Errors that any route may have are not listed in it."""

    method: Literal["GET", "POST"]
    path: str  #: as OpenAPI writes it; `{name}` stands for one or more segments
    handler: Handler
    name: str  #: of the operation, for generated clients
    summary: str
    answer: Any  #: type of the JSON of a 200; or, as text, its media type where it is none
    body: Any = None  #: type of the JSON that is read
    event: Any = None  #: types of a streamed answer's events; None where nothing is streamed
    ends_with_done: bool = True  #: such a stream has a last event `[DONE]`
    errors: tuple[int, ...] = ()  #: statuses with the error object
    cached: CachedAnswer | None = None  #: what the handler answers: it has an ETag, and is a 304 to who has it
    not_ready: Any = None  #: type of a 503 that is no error but this route's answer

    @property
    def pattern(self) -> str:
        """The path as aiohttp writes it."""
        return self.path.replace("{name}", "{name:.+}")


async def prepare(app: web.Application) -> None:
    """Make what stays the same now: later the work, though it is a thread's, would slow down every stream."""
    for answer in app[CACHED]:
        await answer.prepare()


def register(app: web.Application, routes: tuple[Route, ...]) -> None:
    """Add them all; what is read with GET may be asked with HEAD."""
    app[CACHED] = tuple(route.cached for route in routes if route.cached is not None)
    for route in routes:
        add = app.router.add_get if route.method == "GET" else app.router.add_post
        add(route.pattern, route.handler, expect_handler=asked_for_later)


async def asked_for_later(_: web.Request) -> None:
    """For `Expect: 100-continue`: who reads the body says so; a refusal before that comes without the body."""
