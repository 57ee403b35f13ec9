"""Requests as bytes, over sockets that a test reads as slowly as it likes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def post_bytes(path: str, fields: dict[str, Any]) -> bytes:
    """A whole HTTP/1.1 request with a JSON body."""
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


@contextmanager
def asked_and_not_read(port: int, path: str, fields: dict[str, Any]) -> Iterator[socket.socket]:
    """A connection, not blocking and with a small buffer, that has sent the request."""
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", port))
        raw.sendall(post_bytes(path, fields))
        raw.setblocking(False)
        yield raw
