"""The HTTP application: who may call its routes; and around it, the shape of errors and the access log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import HttpVersion11, web

from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.access_log import PROBES, Entry, begin_entry, path_of, write_entry
from baton.services.router.http.auth import ANYBODY, CLIENT, ApiKeys, key_middleware, show_limits
from baton.services.router.http.cors import CorsPolicy, preflight_middleware, show_policy
from baton.services.router.http.pages import Providers
from baton.services.router.http.routes import register
from baton.services.router.http.table import all_routes

AnyHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
LOG = logging.getLogger("baton.router.http")


def json_error(error: ApiError, entry: Entry) -> web.Response:
    """`entry`: the request's, which has failed."""
    response = web.Response(status=error.status, body=error.body(), content_type="application/json")
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    response.headers.update(entry.headers())
    return response


def from_http(error: web.HTTPException, request: web.BaseRequest) -> ApiError:
    """Errors of aiohttp's own routing in our shape."""
    message, code = {
        404: (f"there is no {path_of(request)} here", "not_found"),
        405: (f"{request.method} is not for {request.path}: {error.headers.get('Allow')}", "method_not_allowed"),
        413: (error.reason, "body_too_large"),
    }.get(error.status, (error.reason, None))
    return ApiError(error.status, message, code=code)


def error_of(raised: Exception, request: web.BaseRequest) -> ApiError:
    """What its client is told. Raises ConnectionError where something else has been told already."""
    if isinstance(raised, ApiError):
        return raised
    if isinstance(raised, web.HTTPException):
        return from_http(raised, request)
    LOG.error("a handler failed", exc_info=raised)
    if request.writer.output_size > 0:
        raise ConnectionError("the answer has begun and cannot become an error") from raised
    return ApiError(500, "internal error", kind="server_error", code="internal")


def check_head(request: web.BaseRequest, front: FrontEnd, config: HttpConfig) -> None:
    """What is refused before it is known which route is asked for."""
    if front.is_stopping and request.path not in PROBES:
        raise front.stopping()
    if len(request.headers) > config.max_headers:
        limit = f"{len(request.headers)} headers, the limit is {config.max_headers}"
        raise ApiError(431, limit, code="too_many_headers")
    expected = request.headers.get("Expect", "")
    if expected and request.version >= HttpVersion11 and expected.lower() != "100-continue":
        raise ApiError(417, "of what Expect may say only 100-continue is understood", code="expectation_failed")


def answering(handle: AnyHandler, front: FrontEnd, config: HttpConfig) -> AnyHandler:
    """The application's handler; whatever is raised in it, or before it, is answered, and written to the access log."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        entry = begin_entry(request)
        entry.status = 499  # stands unless an answer is made: the client has gone
        try:
            check_head(request, front, config)
            response = await handle(request)
        except asyncio.CancelledError:
            if front.is_shut:  # it was told that the server stops and did not read that in time
                entry.status, entry.code = 503, "shutting_down"
            else:
                entry.code = "client_gone"
            raise
        except Exception as raised:
            entry.status, entry.code = 200, "internal"  # stands where an answer has begun
            error = error_of(raised, request)
            entry.status, entry.code = error.status, error.code or ""
            response = json_error(error, entry)
            if isinstance(raised, web.HTTPMethodNotAllowed):
                response.headers["Allow"] = raised.headers["Allow"]
            if front.is_stopping or error.status == 500 or not request.content.at_eof():
                response.force_close()  # nothing more comes, or what is left of the body is not read
        else:
            entry.status = response.status
            if not response.prepared:
                response.headers.update(entry.headers())
        finally:
            entry.tenant = request.get(CLIENT, ANYBODY).tenant
            write_entry(entry)
        return response

    return answer


def create_app(
    front: FrontEnd, config: HttpConfig, providers: Providers, api_keys: ApiKeys | None = None
) -> web.Application:
    """All routes; without keys anybody may call them. Serve it with `HttpServer`, which answers what goes wrong."""
    middlewares, shown = [], []  # none that has nothing to do: each is a call for every request
    if config.cors_allow_origins:
        policy = CorsPolicy(config.cors_allow_origins)
        middlewares.append(preflight_middleware(policy))
        shown.append(show_policy(policy))
    if api_keys is not None:
        middlewares.append(key_middleware(api_keys, config.retry_after_s))
        shown.append(show_limits)
    app = web.Application(middlewares=middlewares, client_max_size=config.max_body_bytes + 1)
    app.on_response_prepare.extend(shown)
    register(app, all_routes(front, config, providers, api_keys is not None))
    return app
