"""The HTTP application: routes, who may call them, the error shape of what goes wrong in them, and the access log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from baton.services.router.api.handlers import CHAT, COMPLETIONS, Generation
from baton.services.router.api.tokenizing import Tokenizing
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.access_log import PROBES, begin_entry, write_entry
from baton.services.router.http.auth import ApiKeys, key_middleware, show_limits
from baton.services.router.http.cors import CorsPolicy, preflight_middleware, show_policy

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Providers(NamedTuple):
    """What the service tells about itself. Called on the loop's thread."""

    health: Callable[[], Awaitable[tuple[bool, dict[str, Any]]]]  #: whether the process works
    ready: Callable[[], tuple[bool, dict[str, Any]]]  #: whether it can serve a request now
    metrics: Callable[[], bytes]  #: Prometheus text format


def json_error(error: ApiError) -> web.Response:
    response = web.Response(status=error.status, body=error.body(), content_type="application/json")
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def from_http(error: web.HTTPException) -> ApiError:
    """Errors of aiohttp's own routing in our shape."""
    code = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}.get(error.status)
    return ApiError(error.status, error.reason, code=code)


def error_middleware(front: FrontEnd, config: HttpConfig) -> Any:
    """Answers whatever is raised on purpose behind it, and writes the access log."""

    @web.middleware
    async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        entry = begin_entry(request)
        entry.status = 499  # stands unless an answer is made: the client has gone
        try:
            if front.is_stopping and request.path not in PROBES:
                raise front.stopping()
            if len(request.headers) > config.max_headers:
                limit = f"{len(request.headers)} headers, the limit is {config.max_headers}"
                raise ApiError(431, limit, code="too_many_headers")
            response = await handler(request)
        except (ApiError, web.HTTPException) as raised:
            error = raised if isinstance(raised, ApiError) else from_http(raised)
            entry.code = error.code or ""
            entry.status = error.status
            response = json_error(error)
            response.headers.update(entry.headers())
            if front.is_stopping or not request.content.at_eof():
                response.force_close()  # nothing more comes, or what is left of the body is not read
        except asyncio.CancelledError:
            if front.is_shut:  # it was told that the server stops and did not read that in time
                entry.status, entry.code = 503, "shutting_down"
            else:
                entry.code = "client_gone"
            raise
        else:
            entry.status = response.status
        finally:
            write_entry(entry)
        return response

    return answer_errors


class Models:
    """The model under each of its names."""

    def __init__(self, config: HttpConfig, front: FrontEnd) -> None:
        self._names = config.served_names
        self._front = front
        self._created_s = int(time.time())

    async def list_all(self, _: web.Request) -> web.Response:
        return json_answer({"object": "list", "data": [self._entry(name) for name in self._names]})

    async def retrieve(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._names:
            raise ApiError(404, f"the model {name!r} is not served here", param="model", code="model_not_found")
        return json_answer(self._entry(name))

    def _entry(self, name: str) -> dict[str, Any]:
        limits = self._front.limits
        max_model_len = (limits or self._front.model.info).max_model_len
        common = {"object": "model", "created": self._created_s, "owned_by": "baton"}
        return {"id": name, **common, "max_model_len": max_model_len}


def json_answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")


def health_page(provider: Callable[[], Awaitable[tuple[bool, dict[str, Any]]]]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        is_good, detail = await provider()
        return json_answer(detail, 200 if is_good else 503)

    return answer


def readiness_page(provider: Callable[[], tuple[bool, dict[str, Any]]]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        is_good, detail = provider()
        return json_answer(detail, 200 if is_good else 503)

    return answer


def metrics_page(provider: Callable[[], bytes]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=provider(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return answer


def create_app(
    front: FrontEnd, config: HttpConfig, providers: Providers, api_keys: ApiKeys | None = None
) -> web.Application:
    """All routes; without keys anybody may call them. Serve it with `HttpServer`, which sets up the connections."""
    policy = CorsPolicy(config.cors_allow_origins)
    middlewares = [
        error_middleware(front, config),
        preflight_middleware(policy),
        key_middleware(api_keys, config.retry_after_s),
    ]
    app = web.Application(middlewares=middlewares, client_max_size=config.max_body_bytes + 1)
    app.on_response_prepare.extend([show_policy(policy), show_limits])
    generation = Generation(front, config)
    app.router.add_post("/v1/completions", generation.handler(COMPLETIONS))
    app.router.add_post("/v1/chat/completions", generation.handler(CHAT))
    tokenizing = Tokenizing(front, generation, config)
    app.router.add_post("/tokenize", tokenizing.tokenize)
    app.router.add_post("/detokenize", tokenizing.detokenize)
    models = Models(config, front)
    app.router.add_get("/v1/models", models.list_all)
    app.router.add_get("/v1/models/{name:.+}", models.retrieve)
    app.router.add_get("/health", health_page(providers.health))
    app.router.add_get("/ready", readiness_page(providers.ready))
    app.router.add_get("/metrics", metrics_page(providers.metrics))
    return app
