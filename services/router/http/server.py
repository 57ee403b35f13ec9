"""Serves the application on a socket, with our error shape even for bytes that are no HTTP request."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.http_parser import RawRequestMessage

from baton.core.errors import InvariantViolated
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, invalid
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.access_log import new_entry, write_entry
from baton.services.router.http.app import answering, json_error
from baton.services.transport.http_address import cannot_listen

CLEANUP_S = 1.0  #: for each connection, when all answers have had their time


class Connection(web.RequestHandler):
    """One accepted connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = transport.get_extra_info("socket")
        if accepted is not None and accepted.family in (socket.AF_INET, socket.AF_INET6):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)

    async def has_room(self) -> None:
        """Until the socket takes more. Raises ConnectionError when it is lost."""
        await self._drain_helper()

    def eof_received(self) -> None:
        """Who sends no more is taken to have left: TCP tells nobody whether it still reads. What it asked, and no
        handler has begun, is over."""
        for message, _ in self._messages:
            if isinstance(message, RawRequestMessage):
                entry = new_entry(message.method, message.url.path or message.path, message.headers)
                entry.status, entry.code = 499, "client_gone"
                write_entry(entry)

    def handle_error(
        self, request: Any, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """What could not be parsed. Its line in the access log has no method and no path: none are known."""
        if not isinstance(exc, HttpProcessingError):
            raise ConnectionError("the answer has begun and cannot become an error") from exc
        entry, error = new_entry("", "", {}), parse_error(exc, self.max_field_size)
        entry.status, entry.code = error.status, error.code or ""
        response = json_error(error, entry)
        response.force_close()
        write_entry(entry)
        return response


def parse_error(error: HttpProcessingError, max_line_bytes: int) -> ApiError:
    if isinstance(error, LineTooLong):
        message = f"the request line or a header is too long, the limit is {max_line_bytes} bytes"
        return ApiError(431, message, code="head_too_large")
    if "headers" in error.message.lower():
        return ApiError(431, "the request's head has far too many headers", code="head_too_large")
    return invalid("this is no valid HTTP request", code="invalid_http")


class HttpServer:
    """Start, then stop. A disconnect cancels the handler, so `ClientGone` follows also for answers in one piece."""

    def __init__(self, app: web.Application, front: FrontEnd, config: HttpConfig) -> None:
        self._front = front
        self._config = config
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=CLEANUP_S)
        self._settings: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": config.keepalive_timeout_s,
            "max_line_size": config.max_header_bytes,
            "max_field_size": config.max_header_bytes,
            "max_headers": 4 * config.max_headers,  # beyond it the connection ends; up to it the answer is a 431
            "auto_decompress": False,
            "lingering_time": 1.0,
        }
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen; returns the port. Whoever passes another host than loopback has decided to.

        Raises EndpointRefused.
        """
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        manager = self._runner.server
        if manager is None:
            raise InvariantViolated("the application has no server after its set-up")
        manager.request_handler = answering(manager.request_handler, self._front, self._config)

        def connect() -> Connection:
            return Connection(manager, loop=loop, **self._settings)

        try:
            self._server = await loop.create_server(connect, host, port)
        except OSError as error:
            raise cannot_listen(host, port, "--host, --port", error) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accept nothing more; running answers have their grace and then an honest end; what hangs is cancelled."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        await self._front.finish()
        await self._runner.cleanup()

    @property
    def connections(self) -> list[web.RequestHandler]:
        """Those that are open."""
        return self._runner.server.connections if self._runner.server is not None else []
