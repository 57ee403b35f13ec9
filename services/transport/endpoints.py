"""Where a service may listen: loopback and ipc as they come, anything else only when asked for by its address."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from baton.core.errors import ServingError

MAX_PORT = 65535
ANY_PORT = "*"  #: the system chooses one; only where somebody listens


class EndpointRefused(ServingError):
    """An address that no link may use, or that could not be bound."""


def is_local(endpoint: str) -> bool:
    """Whether only processes of this machine can reach it. Raises EndpointRefused for what is no endpoint."""
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname
    except ValueError as error:  # half a pair of brackets, or no address in it
        raise EndpointRefused(f"{endpoint!r} is no endpoint: {error}") from error
    if parts.scheme == "ipc" and (parts.netloc or parts.path):
        return True
    if parts.scheme != "tcp" or not host:
        raise EndpointRefused(f"{endpoint!r} is neither tcp://HOST:PORT nor ipc://PATH")
    _check_port(endpoint)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_dialed(endpoint: str) -> None:
    """Raises EndpointRefused for what cannot be dialed."""
    is_local(endpoint)
    if endpoint.endswith(f":{ANY_PORT}") or endpoint.startswith("tcp://*"):
        raise EndpointRefused(f"{endpoint!r} can be listened on, not dialed: it names no host or no port")


def has_ipv6_host(endpoint: str) -> bool:
    return endpoint.startswith("tcp://[")


def _check_port(endpoint: str) -> None:
    """ZeroMQ takes any number, modulo 65536."""
    port = endpoint.rpartition(":")[2]
    if port != ANY_PORT and not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= MAX_PORT):
        raise EndpointRefused(f"{endpoint!r} has no port from 0 to {MAX_PORT} (or {ANY_PORT} for any free one)")
