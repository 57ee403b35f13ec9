"""Addresses of HTTP endpoints: brackets for IPv6, and whom to ask where every address is meant."""

from __future__ import annotations

import errno

import pytest
from yarl import URL

from baton.services.transport.http_address import cannot_listen, host_and_port, reachable_host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "fe80::7", "localhost"])
def test_a_url_holds_the_host_and_the_port_that_went_into_it(host: str) -> None:
    url = URL(f"http://{host_and_port(host, 8000)}/ready")
    assert (url.host, url.port) == (host, 8000)
    assert reachable_host(host) == host


@pytest.mark.parametrize(
    ("host", "asked"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("0::0", "::1"), ("", "127.0.0.1")]
)
def test_every_address_is_asked_on_the_loopback_of_its_family(host: str, asked: str) -> None:
    assert reachable_host(host) == asked


def test_an_address_that_cannot_be_had_is_named_with_its_flag_and_the_reason() -> None:
    told = str(cannot_listen("::1", 8000, "--port", OSError(errno.EADDRINUSE, "in use")))
    assert told == "cannot listen on [::1]:8000 (--port): in use"
