"""API keys of clients: every route needs one but those named here, whatever the path looks like."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from baton.services.router.errors import ApiError
from baton.services.router.http.key_file import VARIABLE, ApiKeysInvalid, KeyEntry, parse_keys, read_key_file
from baton.services.router.http.key_limits import KeyLimits
from baton.services.runtime.secret import Secret

#: probes of whoever supervises the process; the built-in page, which holds nothing and has to be loaded without a key
OPEN_ROUTES = frozenset({"/health", "/ready", "/", "/page/page.js", "/page/page.css", "/page/icon.svg"})
TENANT_TAG = b"baton api key tenant\x00"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Client(msgspec.Struct, frozen=True):
    """On whose behalf a request is. Without keys everybody is the same one."""

    tenant: str = ""
    least_priority_class: int = 0  #: its requests are at most as urgent as this

    @property
    def salt_prefix(self) -> bytes:
        """Goes before the request's own salt. No two tenants with any salts make the same bytes: the length says where
        the name ends, and no salt, which is UTF-8, begins with 0xFF, so none imitates a tenant either."""
        name = self.tenant.encode()
        return b"\xff" + len(name).to_bytes(2, "little") + name if name else b""


ANYBODY = Client()
CLIENT = web.RequestKey("CLIENT", Client)  #: set where a key was given; whoever reads it takes ANYBODY without
LIMITS = web.RequestKey("LIMITS", KeyLimits)  #: set where a key was given


class KeyHolder(NamedTuple):
    """Who has one key."""

    digest: bytes
    client: Client
    limits: KeyLimits


class ApiKeys:
    """Compares digests under a key of this process, all of them each time, so that time tells nothing of a key.

    `hash_key` is the deployment's: a key without a tenant gets one from it, the same in every router, that does not
    tell the key. Raises ApiKeysInvalid when a key is there twice.
    """

    def __init__(
        self, entries: list[KeyEntry], hash_key: bytes, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._secret = secrets.token_bytes(32)
        self._holders = [self._holder(entry, hash_key, clock_ns) for entry in entries]
        places: dict[bytes, str] = {}
        for entry, holder in zip(entries, self._holders, strict=True):
            if (first := places.setdefault(holder.digest, entry.place)) is not entry.place:
                raise ApiKeysInvalid(f"{entry.place}: the key of {first} again")

    def check(self, request: web.Request) -> KeyHolder | None:
        """Whose key `Authorization: Bearer KEY` has; None on an open route. Otherwise raises the 401."""
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical in OPEN_ROUTES:
            return None
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        given = self._digest(key.strip())
        matching = [holder for holder in self._holders if hmac.compare_digest(given, holder.digest)]
        if scheme.lower() != "bearer" or not matching:
            raise ApiError(401, "a valid API key is needed", kind="authentication_error", code="invalid_api_key")
        return matching[0]

    def _holder(self, entry: KeyEntry, hash_key: bytes, clock_ns: Callable[[], int]) -> KeyHolder:
        key = entry.key.reveal()
        client = Client(entry.tenant or own_tenant(key, hash_key), entry.priority)
        limits = KeyLimits(entry.rate, entry.burst, entry.concurrency, clock_ns)
        return KeyHolder(self._digest(key), client, limits)

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode("utf-8", "surrogateescape"), hashlib.sha256)


def own_tenant(key: str, hash_key: bytes) -> str:
    """Of a key that names none; no name in a file has a colon."""
    return "key:" + hmac.digest(hash_key, TENANT_TAG + key.encode(), hashlib.sha256)[:16].hex()


def load_api_keys(file: str, variable: Secret | None, hash_key: bytes, max_priority: int) -> ApiKeys | None:
    """The keys of a file and those of the environment together; None where neither is set. In the variable a semicolon
    may stand for the end of a line. Raises ApiKeysInvalid."""
    entries: list[KeyEntry] = []
    if file:
        entries += read_key_file(Path(file), max_priority)
    if variable is not None:
        entries += parse_keys(variable.reveal().replace(";", "\n"), VARIABLE, max_priority)
    return ApiKeys(entries, hash_key) if file or variable is not None else None


def key_middleware(api_keys: ApiKeys, retry_after_s: int) -> Any:
    """Before a handler runs, and so before anything of a body is read: whose request this is, and whether it may be
    now. A request that makes work holds its place among those of its key until its handler is over."""

    @web.middleware
    async def let_in(request: web.Request, handler: Handler) -> web.StreamResponse:
        holder = api_keys.check(request)
        if holder is None:
            return await handler(request)
        request[CLIENT], request[LIMITS] = holder.client, holder.limits
        if request.match_info.route.method != "POST":  # of a path that is not served it is "*"
            return await handler(request)
        with holder.limits.admitted(retry_after_s):
            return await handler(request)

    return let_in


async def show_limits(request: web.Request, response: web.StreamResponse) -> None:
    """On every answer's head: what is left to the key that asked."""
    limits = request.get(LIMITS)
    if limits is not None:
        response.headers.update(limits.headers())
