"""A server that stops: nothing new is taken, what ends in its grace is whole, what does not is told so."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from aiohttp import ClientConnectorError

from baton.core.errors import Reason
from baton.core.router.events import ClientGone
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig, unread_stream

LOGGER = "baton.router.access"
FULL_BYTES = 1 << 16  #: from which on a writer waits for its client
BODY = {"model": "tiny", "prompt": "hello", "max_tokens": 6}


async def stream_text(rig: Rig) -> str:
    async with rig.http.post(rig.url + "/v1/completions", json=BODY | {"stream": True}) as response:
        assert response.status == 200
        return await response.text()


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if record.name == LOGGER]


async def test_a_stream_ends_with_an_error_event_and_an_unstreamed_answer_is_a_503_when_the_grace_is_over(
    model: RouterModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with open_rig(model, stop_grace_s=0.0) as rig:
        rig.machine.is_held = True
        begun = asyncio.create_task(stream_text(rig))
        await rig.machine.until(lambda: 1 in rig.machine.live)
        whole = asyncio.create_task(rig.complete())
        unbegun = asyncio.create_task(rig.complete(stream=True))
        await rig.machine.until(lambda: len(rig.machine.live) == 3)
        rig.machine.deliver(1, 0, 2)
        await rig.server.stop()
        events = (await begun).split("\n\n")[:-1]
        assert json.loads(events[0].removeprefix("data: "))["choices"][0]["text"] == "he"
        error = json.loads(events[-1].removeprefix("data: "))["error"]
        assert (error["code"], error["type"]) == ("shutting_down", "server_error")
        assert "[DONE]" not in events[-1]
        for status, answer in (await whole, await unbegun):
            assert (status, answer["error"]["code"]) == (503, "shutting_down")
        assert sorted(rig.machine.gone, key=lambda gone: gone.request_id) == [
            ClientGone(request_id, Reason.DRAINING) for request_id in (1, 2, 3)
        ]
    # What a stream has begun with stays: its line has the status that its client got.
    assert sorted((line["status"], line["code"]) for line in logged(caplog)) == [
        (200, "shutting_down"),
        (503, "shutting_down"),
        (503, "shutting_down"),
    ]


async def test_a_stopping_server_lets_no_one_in_and_finishes_what_runs(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=60.0) as rig:
        await rig.check_alive()  # leaves a connection that is kept alive
        rig.machine.is_held = True
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        running = asyncio.create_task(rig.complete())
        await rig.machine.until(lambda: 2 in rig.machine.live)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head
        await reader.readexactly(content_length(head))
        stopping = asyncio.create_task(rig.server.stop())
        await asyncio.sleep(0)  # it has closed the door
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()
        assert b" 503 " in answer.split(b"\r\n")[0]
        assert b"connection: close" in answer.lower()
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "shutting_down"
        with pytest.raises(ClientConnectorError):
            await rig.http.get(rig.url + "/health")
        writer.close()
        rig.machine.go_on(2)
        status, body = await running
        assert (status, body["choices"][0]["text"]) == (200, "hell")
        await stopping
        assert rig.machine.gone == []


async def test_a_body_that_is_still_being_read_when_the_server_stops_is_a_503(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.0) as rig:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n"
        writer.write(head + b"\r\n{")
        while rig.front.num_entered == 0:
            await asyncio.sleep(0)
        await rig.server.stop()
        answer = await reader.read()
        assert b" 503 " in answer.split(b"\r\n")[0]
        assert b"shutting_down" in answer
        writer.close()


def content_length(head: bytes) -> int:
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n") if b": " in line)
    return int(lines[b"content-length"])


async def test_a_client_that_does_not_read_does_not_keep_the_server_and_is_not_blamed(
    model: RouterModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with open_rig(model, stop_grace_s=0.0) as rig:
        async with unread_stream(rig):
            transport = rig.server.connections[0].transport
            while transport.get_write_buffer_size() < FULL_BYTES:
                await asyncio.sleep(0)
            await rig.server.stop()
        assert rig.machine.gone == [ClientGone(1, Reason.DRAINING)]
    assert [(line["status"], line["code"]) for line in logged(caplog)] == [(503, "shutting_down")]
