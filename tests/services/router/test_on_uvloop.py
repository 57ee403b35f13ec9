"""The same server on the loop that the service runs on."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from baton.core.errors import Reason
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import open_rig
from tests.support.loops import run_on_uvloop
from tests.support.raw_http import post_bytes


def test_streams_disconnects_and_socket_options_work_on_uvloop(model: RouterModel) -> None:
    async def scenario() -> None:
        async with open_rig(model, stop_grace_s=0.5) as rig:
            stream = await rig.client.completions.create(model="tiny", prompt="abc", max_tokens=7, stream=True)
            assert "".join([chunk.choices[0].text async for chunk in stream]) == "abcabca"
            rig.machine.is_held = True
            asking = asyncio.create_task(rig.complete())
            await rig.machine.until(lambda: 2 in rig.machine.live)
            options = [
                connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                for connection in rig.server.connections
            ]
            assert options
            assert all(options)
            asking.cancel()
            await rig.machine.until(lambda: bool(rig.machine.gone))
            assert rig.machine.gone[0].reason is Reason.ABORTED
            await asyncio.gather(asking, return_exceptions=True)

    run_on_uvloop(scenario())


@pytest.mark.parametrize("num_requests", [1, 3])
def test_who_leaves_at_once_is_in_the_access_log_once_for_each_request(
    model: RouterModel, caplog: pytest.LogCaptureFixture, num_requests: int
) -> None:
    """The loop reads the requests and the end together, before any handler could begin."""

    async def scenario() -> None:
        async with open_rig(model, stop_grace_s=0.5) as rig:
            rig.machine.is_held = True
            with socket.create_connection(("127.0.0.1", rig.port)) as client:
                request = post_bytes("/v1/completions", {"model": "tiny", "prompt": "x"})
                client.sendall(request * num_requests)
                client.shutdown(socket.SHUT_WR)
                client.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
            rig.machine.is_held = False
            await rig.check_alive()

    caplog.set_level(logging.INFO, "baton.router.access")
    run_on_uvloop(scenario())
    lines = [record.fields for record in caplog.records if record.name == "baton.router.access"]
    assert [(line["status"], line["code"]) for line in lines] == [(499, "client_gone")] * num_requests + [(200, "")]
    assert {line["path"] for line in lines} == {"/v1/completions"}
