"""Which pages of other origins a browser lets call this server. Keys travel in `Authorization`, never as credentials
of the browser, so none of these answers allows those."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from baton.core.errors import ServingError

ANY = "*"
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
METHODS = "GET, POST"
REQUEST_HEADERS = "Authorization, Content-Type, X-Request-Id"
RATE_HEADERS = "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests"
EXPOSED_HEADERS = f"X-Request-Id, X-Baton-Placement, Retry-After, {RATE_HEADERS}"
PREFLIGHT_MAX_AGE_S = 600
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class OriginInvalid(ServingError):
    """No browser would ever send this as an origin."""


class CorsPolicy:
    """The origins that are allowed; without any, nothing is ever said about origins."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        for origin in origins:
            if origin != ANY and not ORIGIN.fullmatch(origin):
                form = "must be * or scheme://host[:port] in lower case, without a path"
                raise OriginInvalid(f"http.cors_allow_origins: {origin!r} {form}")
        self._allows_any = ANY in origins
        self._origins = frozenset(origins)

    def headers(self, origin: str | None) -> dict[str, str]:
        """Of any answer to a request from there."""
        if not self._origins:
            return {}
        allowed = self._allowed(origin)
        if not allowed:
            return {"Vary": "Origin"}
        exposed = {"Access-Control-Expose-Headers": EXPOSED_HEADERS}
        return {"Vary": "Origin", "Access-Control-Allow-Origin": allowed, **exposed}

    def is_preflight(self, request: web.Request) -> bool:
        """A browser asks for an allowed page; anyone else's OPTIONS is a request like others."""
        asks = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        return asks and bool(self._allowed(request.headers.get("Origin")))

    def _allowed(self, origin: str | None) -> str:
        """What to say to this origin; empty: nothing."""
        if origin is None:
            return ""
        return ANY if self._allows_any else origin if origin in self._origins else ""


def preflight_middleware(policy: CorsPolicy) -> Any:
    """Answers preflights, which carry no key, alike for every path: they tell nothing and reach nothing."""

    @web.middleware
    async def answer_preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not policy.is_preflight(request):
            return await handler(request)
        allowed = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": REQUEST_HEADERS,
            "Access-Control-Max-Age": str(PREFLIGHT_MAX_AGE_S),
        }
        return web.Response(status=204, headers=allowed)

    return answer_preflight


def show_policy(policy: CorsPolicy) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """For the head of every answer, streams and errors too."""

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(policy.headers(request.headers.get("Origin")))

    return add_headers
