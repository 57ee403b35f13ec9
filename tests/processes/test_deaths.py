"""Processes that are killed under load: every answer stays exact, every request ends, nothing stays held."""

from __future__ import annotations

import json
import re

import pytest

from tests.processes.conftest import NAMES, Stage
from tests.support.load import Load
from tests.support.stack import Stack

CLIENT_SAW_IT_DIE = {
    "no_executor",  # the new router is asked before it is ready
    "ClientPayloadError",
    "ServerDisconnectedError",
    "ClientConnectorError",
    "ClientOSError",
    "stream ended",
}


async def settle(stack: Stack, load: Load) -> None:
    """LIVENESS, then CONSERVATION."""
    await load.good_answers(20)
    await load.stop()
    await stack.quiescent()
    for name in stack.running:
        gauges = await stack.gauges(name)
        if "blocks" in gauges:
            assert gauges["blocks_free"] == gauges["blocks"], name
            assert gauges["transfers_quarantined"] == 0, name


@pytest.mark.parametrize("name", ["prefill", "decode", "scheduler"])
def test_rtr04_a_killed_process_costs_no_client_its_answer(stage: Stage, name: str) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        for _ in range(3):
            await load.good_answers(10)
            await stack.kill(name)
            stack.start(name)
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story)


def test_a_killed_router_takes_only_its_own_clients_with_it(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        for _ in range(3):
            await load.good_answers(10)
            await stack.kill("router")
            stack.start("router")
            await stack.ready()
        await settle(stack, load)
        assert set(load.failures) <= CLIENT_SAW_IT_DIE

    stage.run(story)


def test_with_two_of_each_kind_the_other_ones_take_over(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(20)
        await stack.kill("decode0")
        await load.good_answers(20)
        await stack.kill("prefill1")
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story, ("scheduler", "prefill0", "prefill1", "decode0", "decode1", "router"))


@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_a_grammar_is_followed_from_where_a_killed_executor_left_it(stage: Stage, name: str) -> None:
    """What an output may go on with is a function of its tokens: the next attempt takes up where the last one ended."""
    pattern = "(ab|c[0-9]{3}|def){200}"
    body = {"model": "tiny", "prompt": "x" * 40, "guided_regex": pattern, "max_tokens": 900, "seed": 5}

    async def whole(stack: Stack) -> str:
        async with stack.session.post(stack.url + "/v1/completions", json=body) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["choices"][0]["text"])

    async def story(stack: Stack) -> None:
        undisturbed = await whole(stack)
        assert re.fullmatch(pattern, undisturbed)
        pieces: list[str] = []
        num_killed = 0
        async with stack.session.post(stack.url + "/v1/completions", json=body | {"stream": True}) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    pieces.append(json.loads(line[6:])["choices"][0]["text"])
                if len(pieces) > 30 * (num_killed + 1) and num_killed < 2:
                    num_killed += 1
                    await stack.kill(name)
                    stack.start(name)
        assert num_killed == 2
        assert "".join(pieces) == undisturbed
        await stack.quiescent()

    stage.run(story, decode=("--step-time-s", "0.003"))


def test_everything_may_die_at_once_and_come_back(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(10)
        for name in NAMES:
            await stack.kill(name)
        for name in NAMES:
            stack.start(name)
        await stack.ready()
        await settle(stack, load)

    stage.run(story)
