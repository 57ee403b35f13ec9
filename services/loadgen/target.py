"""Whom a load is put on, and how it is asked."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from baton.core.errors import ServingError
from baton.services.loadgen.plan import PlannedRequest

DEFAULT_PORTS = {"http": 80, "https": 443}


class TargetInvalid(ServingError):
    """A target that no request could be sent to."""


class Endpoint(enum.StrEnum):
    """A way to ask for an answer."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self is Endpoint.CHAT else f"/v1/{self.value}"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One server and what all requests to it have in common. The API key is shown by neither `repr` nor a report."""

    url: str  #: http or https, with or without a final /v1
    model: str
    endpoint: Endpoint = Endpoint.CHAT
    api_key: str = ""
    is_streamed: bool = True
    ignore_eos: bool = True  #: ask for exactly `max_tokens`
    extra_fields: Mapping[str, Any] = {}  #: of the body, over all others
    extra_headers: Mapping[str, str] = {}
    verifies_certificate: bool = True
    connect_timeout_s: float = 10.0
    stall_timeout_s: float = 120.0  #: nothing came for so long
    total_timeout_s: float = 600.0  #: from being sent to the end

    def __repr__(self) -> str:
        return f"Target({self.url!r}, {self.model!r}, {self.endpoint.value!r})"


class Turn(NamedTuple):
    """What was said in a session so far: a request, and what came as its answer."""

    request: PlannedRequest
    answer: str


class BodyOf(Protocol):
    """Makes the JSON that a request says; the same for the same request and history."""

    def __call__(self, request: PlannedRequest, history: Sequence[Turn]) -> bytes:
        """`history`: the session's answered turns, oldest first; empty unless `request.is_next_message`."""


class Address(NamedTuple):
    """A URL, taken apart."""

    host: str
    port: int
    is_tls: bool
    prefix: str  #: of paths; without a final slash and without /v1

    @property
    def authority(self) -> str:
        """What the `Host` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS["https" if self.is_tls else "http"] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The URL that paths such as /metrics are put behind."""
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.prefix}"


def address_of(url: str) -> Address:
    """Raises TargetInvalid."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise TargetInvalid(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise TargetInvalid(f"{url!r} is no URL such as http://127.0.0.1:8000")
    prefix = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    if not prefix.isprintable() or not prefix.isascii() or " " in prefix:
        raise TargetInvalid(f"{url!r}: the path holds what no URL may hold")
    return Address(parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.scheme == "https", prefix)


def headers_of(target: Target) -> dict[str, str]:
    """The headers that every request of this target carries, but those of its body. Raises TargetInvalid."""
    headers = {"Accept": "text/event-stream" if target.is_streamed else "application/json"}
    headers["Accept-Encoding"] = "identity"  # what is unpacked first cannot be stamped as it comes
    headers["Content-Type"] = "application/json"
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    headers.update(target.extra_headers)
    for name, value in headers.items():
        if not name or not f"{name}{value}".isprintable() or set(name) & set(": ") or not f"{name}{value}".isascii():
            raise TargetInvalid(f"header {name!r} cannot be sent")
    return headers
