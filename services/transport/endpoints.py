"""Where a service may listen: loopback and ipc as they come, anything else only when asked for by its address."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from baton.core.errors import ServingError


class EndpointRefused(ServingError):
    """An address that no link may use, or that could not be bound."""


def is_local(endpoint: str) -> bool:
    """Whether only processes of this machine can reach it. Raises EndpointRefused for what is no endpoint."""
    parts = urlsplit(endpoint)
    if parts.scheme == "ipc" and (parts.netloc or parts.path):
        return True
    if parts.scheme != "tcp" or not parts.hostname:
        raise EndpointRefused(f"{endpoint!r} is neither tcp://HOST:PORT nor ipc://PATH")
    try:
        return ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname == "localhost"


def has_ipv6_host(endpoint: str) -> bool:
    return endpoint.startswith("tcp://[")
