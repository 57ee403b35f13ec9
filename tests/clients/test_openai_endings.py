"""OpenAI's client: requests that end early. What the client gives up, the server gives up too."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import openai
import pytest

from baton.core.errors import Reason
from tests.clients.asked import MESSAGES
from tests.services.router.rig import Rig
from tests.support.openai_callers import Caller

READ_LIMIT = openai.Timeout(60.0, read=0.5)


def chat(client: Any, **fields: Any) -> Any:
    return client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=500, **fields)


def complete(client: Any, **fields: Any) -> Any:
    return client.completions.create(model="tiny", prompt="hello", max_tokens=500, **fields)


def respond(client: Any, **fields: Any) -> Any:
    return client.responses.create(model="tiny", input="hello", max_output_tokens=500, **fields)


ENDPOINTS = pytest.mark.parametrize("ask", [chat, complete, respond])


async def deliver_when_there(rig: Rig) -> None:
    """The first tokens of the first request, and no others."""
    await rig.machine.until(lambda: 1 in rig.machine.live)
    rig.machine.deliver(1, 0, 3)


@ENDPOINTS
async def test_a_stream_that_is_left_ends_at_the_server(rig: Rig, caller: Caller, ask: Any) -> None:
    rig.machine.is_held = True
    _, part = await asyncio.gather(deliver_when_there(rig), caller.leave(partial(ask, stream=True)))
    assert part is not None
    await rig.machine.until(lambda: bool(rig.machine.gone))
    assert [gone.request_id for gone in rig.machine.gone] == [1]


@ENDPOINTS
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_clients_timeout_ends_the_request_at_the_server(
    rig: Rig, caller: Caller, ask: Any, is_stream: bool
) -> None:
    rig.machine.is_held = True
    while not rig.machine.arrives:  # a client that gives up before the server has read its request asked nothing
        with pytest.raises(openai.APITimeoutError):
            await caller.call(partial(ask, stream=is_stream, timeout=READ_LIMIT))
    await rig.machine.until(lambda: not rig.machine.live)
    assert [gone.request_id for gone in rig.machine.gone] == list(rig.machine.arrives)


@ENDPOINTS
async def test_a_cancelled_call_ends_the_request_at_the_server(rig: Rig, ask: Any) -> None:
    rig.machine.is_held = True
    asking = asyncio.create_task(ask(rig.client))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await rig.machine.until(lambda: bool(rig.machine.gone))


@pytest.mark.parametrize("ask", [chat, complete])
async def test_a_failure_in_mid_stream_is_raised_with_its_code(rig: Rig, caller: Caller, ask: Any) -> None:
    rig.machine.is_held = True

    async def fail() -> None:
        await deliver_when_there(rig)
        rig.machine.end(1, Reason.PEER_LOST)

    failing = asyncio.create_task(fail())
    with pytest.raises(openai.APIError, match="an executor was lost") as caught:
        await caller.read(partial(ask, stream=True))
    assert caught.value.code == "peer_lost"
    await failing
