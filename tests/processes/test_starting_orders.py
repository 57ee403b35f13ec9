"""ZMQ-05: the four processes may start in any order."""

from __future__ import annotations

import asyncio
import random
from itertools import permutations

import pytest

from tests.processes.conftest import HANG_LIMIT_S, NAMES, Stage
from tests.support.completions import ask, check_answer, random_question


@pytest.mark.parametrize("order", list(permutations(NAMES)), ids="-".join)
def test_zmq05_every_starting_order_serves(stage: Stage, order: tuple[str, ...]) -> None:
    async def story() -> None:
        async with asyncio.timeout(HANG_LIMIT_S), stage.open(NAMES, {}) as stack:
            for name in order:
                stack.start(name)
                await stack.record(name)  # it listens before the next one starts
            await stack.ready()
            question = random_question(random.Random(repr(order)))
            check_answer(question, await ask(stack.session, stack.url, question))
            await stack.quiescent()

    stage.run_bare(story())
