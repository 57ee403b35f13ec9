"""G5 and SCH-05 as far as HTTP goes: who leaves or does not read frees everything, whatever kind of answer it was."""

from __future__ import annotations

import asyncio
import socket

import pytest

from baton.core.errors import Reason
from baton.core.router.events import ClientGone
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, echo, open_rig, unread_stream
from tests.support.raw_http import post_bytes


def request_bytes(**fields: object) -> bytes:
    return post_bytes("/v1/completions", {"model": "tiny", "prompt": "x", "max_tokens": 9} | fields)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
async def test_sch_05_a_client_that_leaves_before_the_first_token_ends_its_request(
    rig: Rig, is_stream: bool, how: str
) -> None:
    rig.machine.is_held = True
    _, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(request_bytes(stream=is_stream))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    if how == "half_close":
        writer.write_eof()
    elif how == "reset":
        writer.transport.abort()
    else:
        writer.close()
    await rig.machine.until(lambda: bool(rig.machine.gone))
    assert [(gone.request_id, gone.reason) for gone in rig.machine.gone] == [(1, Reason.ABORTED)]
    assert rig.front.num_streams == 0
    writer.close()
    rig.machine.is_held = False
    await rig.check_alive()


async def test_sch_05_a_client_that_leaves_in_mid_stream_ends_its_request(rig: Rig) -> None:
    rig.machine.is_held = True
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(request_bytes(stream=True, max_tokens=100))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    rig.machine.deliver(1, 0, 5)
    await reader.readuntil(b"xxxxx")
    writer.close()
    await rig.machine.until(lambda: bool(rig.machine.gone))
    rig.machine.is_held = False
    await rig.check_alive()


async def test_sch_05_late_commands_for_a_client_that_has_gone_are_dropped(rig: Rig) -> None:
    rig.machine.is_held = True
    _, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(request_bytes(stream=True))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    writer.close()
    await rig.machine.until(lambda: rig.front.num_streams == 0 and bool(rig.machine.gone))
    rig.machine.live.setdefault(1, {0: ([1] * 9, "length")})
    rig.machine.deliver(1, 0, 3)
    rig.machine.live.pop(1)
    rig.machine.is_held = False
    await rig.check_alive()


async def test_g5_a_client_that_does_not_read_is_ended_by_the_stall_deadline(model: RouterModel) -> None:
    """Several megabytes are ready, more than the sockets' buffers hold, and the request has not ended."""
    async with open_rig(model, stop_grace_s=0.5, stall_timeout_s=0.2) as rig:
        async with unread_stream(rig):
            await rig.machine.until(lambda: bool(rig.machine.gone))
        assert [(gone.request_id, gone.reason) for gone in rig.machine.gone] == [(1, Reason.STALLED)]
        rig.machine.is_held = False
        rig.machine.script = echo
        await rig.check_alive()


async def test_a_body_that_does_not_come_is_a_408(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5, body_timeout_s=0.1) as rig:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(request_bytes()[:-5])
        assert b" 408 " in await reader.readline()
        writer.close()
        await rig.check_alive()


async def test_a_stopping_server_ends_what_does_not_end_in_its_grace(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.05) as rig:
        rig.machine.is_held = True
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(request_bytes())
        await rig.machine.until(lambda: 1 in rig.machine.live)
        await rig.server.stop()
        assert rig.machine.gone == [ClientGone(1, Reason.DRAINING)]
        assert b"shutting_down" in await reader.read()
        writer.close()


async def test_accepted_sockets_send_without_delay(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5) as rig:
        seen = []

        def health() -> bool:
            for connection in rig.server.connections:
                accepted = connection.transport.get_extra_info("socket")
                seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            return True

        rig.probes["health"] = health
        async with rig.http.get(rig.url + "/health") as response:
            assert response.status == 200
        assert seen
        assert all(seen)
