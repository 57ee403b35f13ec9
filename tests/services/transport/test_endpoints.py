"""What is an endpoint, who can reach it, and what can be dialed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.transport.endpoints import MAX_PORT, EndpointRefused, check_dialed, is_local


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:8100", True),
        ("tcp://127.0.0.1:*", True),
        ("tcp://[::1]:0", True),
        ("tcp://localhost:1", True),
        ("ipc:///run/x", True),
        ("tcp://0.0.0.0:8100", False),
        ("tcp://*:8100", False),
        ("tcp://[::]:8100", False),
        ("tcp://scheduler:8100", False),
    ],
)
def test_sec02_who_can_reach_an_endpoint(endpoint: str, local: bool) -> None:
    assert is_local(endpoint) == local


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "foo://x",
        "127.0.0.1:80",
        "ipc://",
        "tcp://",
        "tcp://:80",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://[::1",
    ],
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(EndpointRefused):
        is_local(endpoint)


@given(port=st.integers())
def test_a_port_is_one_of_tcp_or_refused(port: int) -> None:
    if 0 <= port <= MAX_PORT:
        assert is_local(f"tcp://127.0.0.1:{port}")
        return
    with pytest.raises(EndpointRefused, match="no port"):
        is_local(f"tcp://127.0.0.1:{port}")


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:*", "tcp://*:80"])
def test_an_endpoint_for_listeners_alone_is_not_dialed(endpoint: str) -> None:
    is_local(endpoint)
    with pytest.raises(EndpointRefused):
        check_dialed(endpoint)
