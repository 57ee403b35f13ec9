"""Processes that stop and go on (SIGSTOP, SIGCONT) under load, for longer than a link's silence."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from tests.processes.conftest import Stage
from tests.processes.test_deaths import settle
from tests.support.load import Load
from tests.support.stack import Stack

Condition = Callable[[], Awaitable[bool]]


async def until_true(condition: Condition) -> None:
    while not await condition():
        await asyncio.sleep(0.05)


async def stop_for_a_while(stack: Stack, name: str, was_noticed: Condition) -> None:
    stack.signal(name, signal.SIGSTOP)
    await until_true(was_noticed)
    stack.signal(name, signal.SIGCONT)
    await stack.ready()


def test_a_stopped_executor_or_scheduler_costs_no_client_its_answer(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        async def an_executor_is_missing() -> bool:
            return (await stack.gauges("scheduler"))["executors"] < 2

        async def the_router_is_not_ready() -> bool:
            return (await stack.get(stack.http_port, "/ready"))[0] != 200

        load = Load(stack)
        await load.good_answers(10)
        await stop_for_a_while(stack, "prefill", an_executor_is_missing)
        await load.good_answers(10)
        await stop_for_a_while(stack, "decode", an_executor_is_missing)
        await load.good_answers(10)
        await stop_for_a_while(stack, "scheduler", the_router_is_not_ready)
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story)


def test_g5_zmq01_no_sequence_waits_for_a_stopped_router_and_no_token_is_lost(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        async def everything_is_computed() -> bool:
            gauges = [await stack.gauges(name) for name in ("prefill", "decode")]
            return not any(g["sequences_running"] or g["steps_in_flight"] for g in gauges)

        load = Load(stack, max_tokens=200)
        await load.good_answers(10)
        stack.signal("router", signal.SIGSTOP)
        await until_true(everything_is_computed)
        stack.signal("router", signal.SIGCONT)
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story)
