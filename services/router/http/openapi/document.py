"""The OpenAPI document of a router, from its table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

from baton.services.router.api.responses_bodies import InputItem
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ErrorAnswer
from baton.services.router.http.access_log import PROBES
from baton.services.router.http.auth import OPEN_ROUTES
from baton.services.router.http.openapi.examples import examples
from baton.services.router.http.openapi.ranges import ranges
from baton.services.router.http.openapi.schemas import Schema, components, reference
from baton.services.router.http.openapi.statuses import ERRORS, HEADERS, OF_ANY_ROUTE, OF_EVERY_BODY, WITH_KEYS
from baton.services.router.http.routes import Route
from baton.services.router.json_bounds import MAX_DIGITS, MAX_NODES, MAX_VALUES

JSON, EVENTS = "application/json", "text/event-stream"
DESCRIPTION = f"""Serves one language model with prefill and decode on separate executors.

A field that is not listed is refused with a 400 that names it; `null` means the default. Paths and methods that are not
listed are answered with 404 and 405 and the same error object; 405 comes with `Allow`. A body has at most {MAX_NODES}
objects, lists and members of objects, at most {MAX_VALUES} values in all, and no number of more than
{MAX_DIGITS} digits."""
STREAM = """With `stream`: server-sent events, each as in the schema. A failure after the first event is an event of its
own, and then the stream ends{done}."""
DONE = {"const": "[DONE]"}


def openapi_document(routes: Iterable[Route], config: HttpConfig, vocab_size: int, has_keys: bool) -> dict[str, Any]:
    """What `/openapi.json` answers, before it is encoded. Fixed for the life of a router."""
    return Document(tuple(routes), config, vocab_size, has_keys).whole()


def types_within(types: Iterable[Any]) -> list[Any]:
    """Those of the table that have schemas; members of a union one by one."""
    kinds = [kind for kind in types if kind is not None and not isinstance(kind, str)]
    return [one for kind in kinds for one in get_args(kind) or (kind,)]


class Document:
    """One table's."""

    def __init__(self, routes: tuple[Route, ...], config: HttpConfig, vocab_size: int, has_keys: bool) -> None:
        self._routes = routes
        self._has_keys = has_keys
        self._examples = examples(config.served_names[0])
        answers = [kind for route in routes for kind in (route.answer, route.event, route.not_ready)]
        self._schemas = components(
            [*types_within(route.body for route in routes), InputItem],
            [*types_within(answers), ErrorAnswer],
            ranges(config, vocab_size),
        )

    def whole(self) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for route in self._routes:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
        shared: dict[str, Any] = {
            "schemas": self._schemas,
            "headers": HEADERS,
            "responses": {response_name(status): self._error(status) for status in ERRORS},
        }
        document: dict[str, Any] = {
            "openapi": "3.1.0",
            "info": {"title": "Baton", "version": own_version(), "description": DESCRIPTION},
            "paths": paths,
            "components": shared,
        }
        if self._has_keys:
            shared["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"key": []}]
        return document

    def _operation(self, route: Route) -> dict[str, Any]:
        operation: dict[str, Any] = {"operationId": route.name, "summary": route.summary}
        if self._has_keys and route.path in OPEN_ROUTES:
            operation["security"] = []
        if "{name}" in route.path:
            operation["parameters"] = [
                {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            ]
        if route.body is not None:
            content = {"schema": reference(route.body, self._schemas)}
            content["examples"] = {name: {"value": value} for name, value in self._examples[route.body].items()}
            operation["requestBody"] = {"required": True, "content": {JSON: content}}
        operation["responses"] = self._responses(route)
        return operation

    def _responses(self, route: Route) -> dict[str, Any]:
        statuses = {*OF_ANY_ROUTE, *route.errors}
        if route.body is not None:
            statuses.update(OF_EVERY_BODY)
        if route.path not in PROBES:  # a router that stops answers nothing else
            statuses.add(503)
        if self._has_keys and route.path not in OPEN_ROUTES:
            statuses.update(WITH_KEYS)
        responses: dict[str, Any] = {"200": self._answer(route)}
        if route.cached is not None:
            responses["304"] = {"description": "It is what If-None-Match names.", "headers": headers("ETag")}
        for status in sorted(statuses):
            responses[str(status)] = {"$ref": f"#/components/responses/{response_name(status)}"}
        if route.not_ready is not None:
            responses["503"] = {"description": "Not now.", "content": self._json(route.not_ready)}
        return responses

    def _answer(self, route: Route) -> dict[str, Any]:
        if isinstance(route.answer, str):
            schema = {"type": "object" if route.answer == JSON else "string"}
            content: dict[str, Any] = {route.answer: {"schema": schema}}
        else:
            content = self._json(route.answer)
        if route.event is not None:
            content[EVENTS] = {"schema": self._event(route)}
        names = ("X-Request-Id", "ETag") if route.cached is not None else ("X-Request-Id",)
        if route.event is not None:
            names = (*names, "X-Baton-Placement")
        return {"description": route.summary, "headers": headers(*names), "content": content}

    def _event(self, route: Route) -> Schema:
        """Of one server-sent event."""
        kinds = [self._json(kind)[JSON]["schema"] for kind in (*types_within([route.event]), ErrorAnswer)]
        data: Schema = {"type": "string", "contentMediaType": JSON, "contentSchema": {"anyOf": kinds}}
        return {
            "type": "object",
            "description": STREAM.format(done=" without `[DONE]`" if route.ends_with_done else ""),
            "properties": {"data": {"anyOf": [data, DONE]} if route.ends_with_done else data},
            "required": ["data"],
        }

    def _error(self, status: int) -> dict[str, Any]:
        error = ERRORS[status]
        content = self._json(ErrorAnswer)
        return {"description": error.meaning, "headers": headers("X-Request-Id", *error.headers), "content": content}

    def _json(self, kind: Any) -> dict[str, Any]:
        """Content of an answer of this type."""
        return {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def headers(*names: str) -> dict[str, Schema]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def response_name(status: int) -> str:
    return f"Error{status}"


def own_version() -> str:
    try:
        return version("baton-serve")
    except PackageNotFoundError:
        return "0"
