"""ZMQ-05: the four processes may start in any order."""

from __future__ import annotations

import asyncio
import random
from itertools import permutations

import pytest

from tests.processes.conftest import HANG_LIMIT_S, NAMES, Stage
from tests.support.completions import ask, check_answer, random_question

STACKS_AT_ONCE = 3  #: while one waits, others work


@pytest.mark.parametrize("first", NAMES)
def test_zmq05_every_starting_order_serves(stage: Stage, first: str) -> None:
    async def serves(order: tuple[str, ...], turn: asyncio.Semaphore) -> None:
        folder = "-".join(order)
        async with turn, asyncio.timeout(HANG_LIMIT_S), stage.open(NAMES, {}, folder) as stack:
            for name in order:
                stack.start(name)
                await stack.record(name)  # it listens before the next one starts
            await stack.ready()
            question = random_question(random.Random(folder))
            check_answer(question, await ask(stack.session, stack.url, question))
            await stack.quiescent()

    async def story() -> None:
        turn = asyncio.Semaphore(STACKS_AT_ONCE)
        orders = [order for order in permutations(NAMES) if order[0] == first]
        assert len(orders) == 6
        async with asyncio.TaskGroup() as group:
            for order in orders:
                group.create_task(serves(order, turn))

    stage.run_bare(story())
