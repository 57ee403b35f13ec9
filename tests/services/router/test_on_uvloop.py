"""The same server on the loop that the service runs on."""

from __future__ import annotations

import asyncio
import socket

from baton.core.errors import Reason
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import open_rig
from tests.support.loops import run_on_uvloop


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
