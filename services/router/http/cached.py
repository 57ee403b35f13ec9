"""Answers that stay the same for the life of the router: sent once to each client that keeps them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping

from aiohttp import web
from aiohttp.typedefs import LooseHeaders


class CachedAnswer:
    """Bytes under an ETag, made beside the loop before they are needed; 304 to who names it in `If-None-Match`."""

    def __init__(self, make: Callable[[], bytes], content_type: str, headers: Mapping[str, str]) -> None:
        self._make = make
        self._headers = {"Content-Type": content_type, **headers}
        self._body: bytes | None = None
        self._etag = ""

    @property
    def is_made(self) -> bool:
        return self._body is not None

    async def prepare(self) -> bytes:
        """Make the bytes, where that has not been done: at the latest when they are asked for."""
        if self._body is None:
            self._body = await asyncio.to_thread(self._make)
            self._etag = hashlib.sha256(self._body).hexdigest()[:32]
        return self._body

    async def answer(self, request: web.Request) -> web.Response:
        body = await self.prepare()
        headers: LooseHeaders = self._headers | {"ETag": f'"{self._etag}"'}
        if any(known.value in (self._etag, "*") for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers)
