"""Processes that are asked to end under load: what runs is finished or goes on elsewhere, and the exit is clean."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.processes.conftest import NAMES, Stage
from tests.processes.test_deaths import settle
from tests.support.completions import Question, ask, check_answer
from tests.support.load import Load
from tests.support.stack import Stack


async def ask_whole(stack: Stack, question: Question) -> tuple[int, str]:
    """Status and error code of an answer in one piece."""
    async with stack.session.post(f"{stack.url}/v1/completions", json=question.body() | {"stream": False}) as response:
        return response.status, str((await response.json())["error"]["code"])


@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_als03_an_executor_that_is_asked_to_end_costs_no_client_its_answer(stage: Stage, name: str) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(20)
        stack.running[f"{name}0"].terminate()
        assert await stack.exited(f"{name}0") == 0, stack.log(f"{name}0")
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story, (*(n for n in NAMES if n != name), f"{name}0", f"{name}1"))


def test_zmq05_a_router_that_is_asked_to_end_finishes_its_streams(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        questions = [Question(tuple(range(20 + index)), 40, index) for index in range(8)]
        asked = [asyncio.ensure_future(ask(stack.session, stack.url, question)) for question in questions]
        while (await stack.gauges("router"))["streams"] < len(questions):
            await asyncio.sleep(0.005)
        stack.running["router"].terminate()
        for question, answer in zip(questions, await asyncio.gather(*asked), strict=True):
            check_answer(question, answer)
        assert await stack.exited("router") == 0
        await stack.quiescent()

    stage.run(story, decode=("--step-time-s", "0.02"))


def test_zmq05_a_router_whose_streams_do_not_end_in_time_ends_them_and_exits(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        endless = Question((1, 2, 3), 800, 1)
        whole = asyncio.ensure_future(ask_whole(stack, endless))
        async with stack.session.post(f"{stack.url}/v1/completions", json=endless.body()) as response:
            assert b"choices" in await response.content.readline()
            while (await stack.gauges("router"))["streams"] < 2:
                await asyncio.sleep(0.005)
            stack.running["router"].terminate()
            events = (await response.text()).split("\n\n")
        assert events[-1] == ""
        assert json.loads(events[-2].removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert await whole == (503, "shutting_down")
        assert await stack.exited("router") == 0
        assert "client_gone" not in stack.log("router")
        await stack.quiescent()

    stage.run(story, router=("--stop-grace-s", "0.2"), decode=("--step-time-s", "0.05"))
