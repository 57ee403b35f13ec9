"""Routes that tell about the server: its models, whether it works, its metrics."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

import msgspec
from aiohttp import web

from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.routes import Handler


class Providers(NamedTuple):
    """What the service tells about itself. Called on the loop's thread."""

    health: Callable[[], Awaitable[bool]]  #: whether the process works
    readiness: Callable[[], str]  #: why no request can be served now; empty: one can
    metrics: Callable[[], bytes]  #: Prometheus text format


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """The model under one of its names."""

    id: str
    object: Literal["model"] = "model"
    created: int  #: Unix time of the router's start
    owned_by: Literal["baton"] = "baton"
    max_model_len: int  #: tokens of prompt and output together


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The model under each of its names."""

    object: Literal["list"] = "list"
    data: list[Model]


class Health(msgspec.Struct, frozen=True):
    """Whether the process takes turns."""

    healthy: bool


class Readiness(msgspec.Struct, frozen=True):
    """Whether a request would be served now."""

    ready: bool
    reason: str  #: why not; empty when ready


class Models:
    """The model under each of its names."""

    def __init__(self, config: HttpConfig, front: FrontEnd) -> None:
        self._names = config.served_names
        self._front = front
        self._created_s = int(time.time())

    async def list_all(self, _: web.Request) -> web.Response:
        return json_answer(ModelList(data=[self._entry(name) for name in self._names]))

    async def retrieve(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._names:
            raise ApiError(404, f"the model {name!r} is not served here", param="model", code="model_not_found")
        return json_answer(self._entry(name))

    def _entry(self, name: str) -> Model:
        limits = self._front.limits
        max_model_len = (limits or self._front.model.info).max_model_len
        return Model(id=name, created=self._created_s, max_model_len=max_model_len)


def json_answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")


def health_page(provider: Callable[[], Awaitable[bool]]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        is_healthy = await provider()
        return json_answer(Health(is_healthy), 200 if is_healthy else 503)

    return answer


def readiness_page(provider: Callable[[], str]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        why_not = provider()
        return json_answer(Readiness(not why_not, why_not), 503 if why_not else 200)

    return answer


def metrics_page(provider: Callable[[], bytes]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=provider(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return answer
