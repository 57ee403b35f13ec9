"""Addresses of HTTP endpoints: as text, and the one under which this machine reaches what listens there."""

from __future__ import annotations

import ipaddress

from baton.services.transport.endpoints import EndpointRefused

LOOPBACK = {4: "127.0.0.1", 6: "::1"}


def host_and_port(host: str, port: int) -> str:
    """As a URL has it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable_host(host: str) -> str:
    """Whom to ask on this machine: `host` itself; where it means every address, the loopback of its family."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or LOOPBACK[4]
    return LOOPBACK[address.version] if address.is_unspecified else host


def cannot_listen(host: str, port: int, flags: str, error: OSError) -> EndpointRefused:
    """`flags`: with which the address was chosen."""
    return EndpointRefused(f"cannot listen on {host_and_port(host, port)} ({flags}): {error.strerror or error}")
