"""API keys of clients: every route needs one but those named here, whatever the path looks like."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from aiohttp import web

from baton.core.errors import ServingError
from baton.services.router.errors import ApiError

OPEN_ROUTES = frozenset({"/health", "/ready"})  #: probes of whoever supervises the process


class NoApiKeys(ServingError):
    """A file of keys was named and holds none: serving without authentication would not be what was meant."""


class ApiKeys:
    """Compares digests under a key of this process, all of them each time, so that time tells nothing of a key."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._secret = secrets.token_bytes(32)
        self._digests = [self._digest(key) for key in keys]

    def check(self, request: web.Request) -> None:
        """Raises the 401 unless the route is open or the request carries `Authorization: Bearer KEY`."""
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical in OPEN_ROUTES:
            return
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        given = self._digest(key.strip())
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if scheme.lower() != "bearer" or not any(matches):
            raise ApiError(401, "a valid API key is needed", kind="authentication_error", code="invalid_api_key")

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode("utf-8", "surrogateescape"), hashlib.sha256)


def read_api_keys(path: Path) -> ApiKeys:
    """One key a line; empty lines do not count."""
    keys = tuple(filter(None, map(str.strip, path.read_text(encoding="utf-8").splitlines())))
    if not keys:
        raise NoApiKeys(f"{path} holds no key")
    return ApiKeys(keys)
