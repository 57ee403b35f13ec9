"""HTTP/1.1 responses out of bytes as they come."""

from __future__ import annotations

import pytest

from baton.services.loadgen.client_response import Head, HttpMalformed, ResponseParser

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n5\r\nhello\r\n6;name=value\r\n world\r\n1A \r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nTrailer: x\r\n\r\n"
)
BODY = b"hello worldabcdefghijklmnopqrstuvwxyz"


def read(*pieces: bytes) -> tuple[bytes, ResponseParser]:
    parser = ResponseParser()
    return b"".join(parser.feed(piece) for piece in pieces), parser


def test_a_chunked_body_is_the_same_however_it_is_cut() -> None:
    for at in range(len(CHUNKED) + 1):
        body, parser = read(CHUNKED[:at], CHUNKED[at:])
        assert (body, parser.is_over) == (BODY, True)
        assert parser.head is not None
        assert parser.head.keeps_alive
    body, parser = read(*(bytes([byte]) for byte in CHUNKED))
    assert (body, parser.is_over) == (BODY, True)


def test_a_body_of_known_length_is_over_with_its_last_byte() -> None:
    stream = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nRetry-After: 2\r\nConnection: close\r\n\r\nbusy"
    for at in range(len(stream)):
        body, parser = read(stream[:at], stream[at:])
        assert (body, parser.is_over) == (b"busy", True)
        headers = {"content-length": "4", "retry-after": "2", "connection": "close"}
        assert parser.head == Head(503, headers, keeps_alive=False)


def test_a_body_without_a_length_lasts_until_the_connection_ends() -> None:
    body, parser = read(b"HTTP/1.1 200 OK\r\n\r\none", b" two")
    assert body == b"one two"
    assert not parser.is_over
    assert parser.can_end_here
    assert parser.head is not None
    assert not parser.head.keeps_alive


def test_a_chunked_body_cannot_end_before_its_last_chunk() -> None:
    _, parser = read(CHUNKED[:-5])
    assert not parser.can_end_here


def test_a_body_of_no_bytes_is_over_with_its_head() -> None:
    for head in (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"):
        body, parser = read(head)
        assert (body, parser.is_over) == (b"", True)


def test_bytes_after_the_body_make_the_connection_useless() -> None:
    for end in (b"x", CHUNKED):
        for pieces in ((CHUNKED + end,), (CHUNKED, end)):
            body, parser = read(*pieces)
            assert body == BODY
            assert parser.head is not None
            assert not parser.head.keeps_alive


def test_a_server_of_http_1_0_keeps_the_connection_only_if_it_says_so() -> None:
    for line, keeps in ((b"", False), (b"Connection: keep-alive\r\n", True)):
        _, parser = read(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n" + line + b"\r\n")
        assert parser.head is not None
        assert parser.head.keeps_alive is keeps


@pytest.mark.parametrize(
    "stream",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 5000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"x" * 70000,
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70000,
    ],
)
def test_what_is_no_response_is_said(stream: bytes) -> None:
    with pytest.raises(HttpMalformed):
        read(stream)
