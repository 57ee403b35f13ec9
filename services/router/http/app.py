"""The HTTP application: who may call its routes, the error shape of what goes wrong in them, and the access log."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.access_log import PROBES, begin_entry, write_entry
from baton.services.router.http.auth import ApiKeys, key_middleware, show_limits
from baton.services.router.http.cors import CorsPolicy, preflight_middleware, show_policy
from baton.services.router.http.pages import Providers
from baton.services.router.http.routes import Handler, register
from baton.services.router.http.table import all_routes


def json_error(error: ApiError) -> web.Response:
    response = web.Response(status=error.status, body=error.body(), content_type="application/json")
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def from_http(error: web.HTTPException, request: web.BaseRequest) -> ApiError:
    """Errors of aiohttp's own routing in our shape."""
    message, code = {
        404: (f"there is no {request.path} here", "not_found"),
        405: (f"{request.method} is not for {request.path}: {error.headers.get('Allow')}", "method_not_allowed"),
        413: (error.reason, "body_too_large"),
        417: ("of what Expect may say only 100-continue is understood", "expectation_failed"),
    }.get(error.status, (error.reason, None))
    return ApiError(error.status, message, code=code)


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
            error = raised if isinstance(raised, ApiError) else from_http(raised, request)
            entry.fail(error.status, error.code or "")
            response = json_error(error)
            response.headers.update(entry.headers())
            if isinstance(raised, web.HTTPMethodNotAllowed):
                response.headers["Allow"] = raised.headers["Allow"]
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
            if not response.prepared:
                response.headers.update(entry.headers())
        finally:
            write_entry(entry)
        return response

    return answer_errors


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
    register(app, all_routes(front, config, providers, api_keys is not None))
    return app
