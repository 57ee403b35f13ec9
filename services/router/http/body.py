"""From a request's bytes to a typed body: content type, size on the stream, strict JSON."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from aiohttp import HttpVersion11, web
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge

from baton.core.errors import Reason
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, from_reason, invalid
from baton.services.router.http.body_errors import type_error
from baton.services.router.json_bounds import excess

Body = TypeVar("Body")


class Intake:
    """Bytes of bodies that are being read or tokenized, of all requests together: at most `max_bytes`."""

    def __init__(self, max_bytes: int, retry_after_s: int) -> None:
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._retry_after_s = retry_after_s

    def take(self, num_bytes: int) -> None:
        """Raises the answer QUEUE_FULL when there is no room."""
        if self.num_bytes + num_bytes > self._max_bytes:
            numbers = {"intake_bytes": float(self.num_bytes), "max_intake_bytes": float(self._max_bytes)}
            raise from_reason(Reason.QUEUE_FULL, numbers, self._retry_after_s)
        self.num_bytes += num_bytes

    def give_back(self, num_bytes: int) -> None:
        self.num_bytes -= num_bytes


class Held:
    """One request's share of the intake; given back when the block is left."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.num_bytes = 0

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._intake.give_back(self.num_bytes)
        self.num_bytes = 0

    def take(self, num_bytes: int) -> None:
        self._intake.take(num_bytes)
        self.num_bytes += num_bytes


def too_large(num_bytes: int, config: HttpConfig) -> ApiError:
    return ApiError(
        413, f"the body has at least {num_bytes} bytes, the limit is {config.max_body_bytes}", code="body_too_large"
    )


def check_media_type(request: web.Request) -> None:
    """JSON in UTF-8 and not compressed, or 415."""
    if "Content-Type" not in request.headers or request.content_type != "application/json":
        raise ApiError(415, "Content-Type must be application/json", code="unsupported_media_type")
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise ApiError(415, "the body must be UTF-8", code="unsupported_media_type")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ApiError(415, "compressed bodies are not taken", code="unsupported_media_type")


async def read_body(request: web.Request, held: Held, config: HttpConfig) -> bytes:
    """The whole body, counted as it comes, so that a missing or wrong Content-Length changes nothing."""
    check_media_type(request)
    if (request.content_length or 0) > config.max_body_bytes:
        raise too_large(request.content_length or 0, config)
    if request.content.is_eof():  # it came with its head: nothing to wait for
        return take_body(request, held, config)
    pieces = []
    num_bytes = 0
    try:
        async with asyncio.timeout(config.body_timeout_s):
            await ask_for_body(request)
            async for piece in request.content.iter_any():
                num_bytes += len(piece)
                if num_bytes > config.max_body_bytes:
                    raise too_large(num_bytes, config)
                held.take(len(piece))
                pieces.append(piece)
    except TimeoutError:
        raise ApiError(408, f"the body did not come within {config.body_timeout_s:g} s", code="body_timeout") from None
    except (web.RequestPayloadError, HTTPRequestEntityTooLarge) as error:
        raise bad_payload(error) from error
    return b"".join(pieces)


async def ask_for_body(request: web.Request) -> None:
    """From a client that waits until it is told to go on."""
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun


def take_body(request: web.Request, held: Held, config: HttpConfig) -> bytes:
    """One that has come whole."""
    try:
        body = request.content.read_nowait()
    except (web.RequestPayloadError, HTTPRequestEntityTooLarge) as error:
        raise bad_payload(error) from error
    if len(body) > config.max_body_bytes:
        raise too_large(len(body), config)
    held.take(len(body))
    return body


def bad_payload(error: Exception) -> ApiError:
    return invalid(f"the body is not valid HTTP: {error}")


def decode_body(body: bytes | msgspec.Raw, body_type: type[Body], inside: str = "") -> Body:
    """Strict JSON of this type; the error names the field at fault. `inside`: the field that the JSON is a part of."""
    if isinstance(body, bytes) and (too_many := excess(body)):
        raise invalid(f"{inside or 'the body'} has {too_many}", inside or None, "too_many")
    try:
        return msgspec.json.decode(body, type=body_type)
    except msgspec.ValidationError as error:
        raise type_error(str(error), body_type, inside) from None
    except msgspec.DecodeError as error:
        raise invalid(f"{inside or 'the body'} is not valid JSON: {error}", inside or None, "invalid_json") from None
    except RecursionError:
        raise invalid(f"{inside or 'the body'} nests too deep", inside or None, "too_deep") from None
