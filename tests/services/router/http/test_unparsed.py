"""Heads that no handler and no route sees are answered as all others are: our shape, an id, and a line in the log."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, NamedTuple

import pytest

from baton.core.errors import Reason
from tests.services.router.rig import Rig
from tests.support.raw_http import post_bytes

LOGGER = "baton.router.access"
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]  #: names in lower case
    error: dict[str, Any]


async def reply_to(rig: Rig, data: bytes) -> Reply:
    """What comes back for these bytes on a connection of their own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(data)
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    await writer.wait_closed()
    return Reply(int(first.split()[1]), headers, json.loads(body)["error"])


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if record.name == LOGGER]


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"\x16\x03\x01nothing\r\n\r\n", 400, "invalid_http"),
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400, "invalid_http"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, "head_too_large"),
        (HEAD + b"big: " + b"x" * 20_000 + b"\r\n\r\n", 431, "head_too_large"),
        (HEAD + b"".join(b"h%d: x\r\n" % index for index in range(100)) + b"\r\n", 431, "too_many_headers"),
        (HEAD + b"Expect: \xff\r\n\r\n", 417, "expectation_failed"),
        (HEAD + "Expect: ü\r\n\r\n".encode(), 417, "expectation_failed"),
        (HEAD + b"Expect: x\r\n\r\n", 417, "expectation_failed"),
        (HEAD.replace(b"/v1/completions", b"/nothing") + b"Expect: \xff\r\n\r\n", 417, "expectation_failed"),
        (HEAD + b"Content-Type: \xff\r\n\r\n", 415, "unsupported_media_type"),
        (HEAD.replace(b"/v1/completions", b"/%ff"), 404, "not_found"),
    ],
)
async def test_a_head_that_cannot_be_served_has_an_id_that_its_one_line_names(
    rig: Rig, caplog: pytest.LogCaptureFixture, data: bytes, status: int, code: str
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    reply = await reply_to(rig, data if data.endswith(b"\r\n\r\n") else data + b"\r\n")
    assert (reply.status, reply.error["code"]) == (status, code)
    (line,) = lines(caplog)
    assert (line["status"], line["code"]) == (status, code)
    assert line["reply_id"] == reply.headers["x-request-id"] != ""


async def test_an_expectation_of_an_older_version_means_nothing(rig: Rig) -> None:
    reply = await reply_to(rig, HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Expect: \xff\r\n\r\n")
    assert reply.status == 415


async def test_a_body_that_is_announced_is_asked_for(rig: Rig) -> None:
    head, body = post_bytes("/v1/completions", {"model": "tiny", "prompt": "ab", "max_tokens": 4}).split(b"\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(head + b"\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert b'"abab"' in await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("kind", "num_bytes", "status"), [(b"application/json", 1 << 30, 413), (b"text/plain", 100, 415)]
)
async def test_a_body_that_is_refused_is_not_asked_for(rig: Rig, kind: bytes, num_bytes: int, status: int) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: " + kind
    reply = await reply_to(rig, head + b"\r\nContent-Length: %d\r\n\r\n" % num_bytes)
    assert (reply.status, reply.headers["connection"]) == (status, "close")


async def test_an_error_that_nobody_expected_has_an_id_that_its_line_names(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise KeyError("secret detail")

    caplog.set_level(logging.INFO, LOGGER)
    monkeypatch.setattr(rig.front, "_new_stream", broken)
    reply = await reply_to(rig, post_bytes("/v1/completions", {"model": "tiny", "prompt": "x"}))
    (line,) = lines(caplog)
    assert (reply.status, line["status"], line["code"]) == (500, 500, "internal")
    assert line["reply_id"] == reply.headers["x-request-id"] != ""


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_client_that_sends_no_more_counts_as_gone(
    rig: Rig, caplog: pytest.LogCaptureFixture, is_stream: bool
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    rig.machine.is_held = True
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(post_bytes("/v1/completions", {"model": "tiny", "prompt": "x", "stream": is_stream}))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    writer.write_eof()
    assert await reader.read() == b""
    await rig.machine.until(lambda: bool(rig.machine.gone))
    assert [gone.reason for gone in rig.machine.gone] == [Reason.ABORTED]
    writer.close()
    assert [(line["status"], line["code"]) for line in lines(caplog)] == [(499, "client_gone")]
