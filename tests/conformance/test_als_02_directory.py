"""ALS-02: the scheduler's directory of cached prefixes is right, also after it has slept through changes."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.live import HANG_LIMIT_S, left_as_found, running
from tests.support.completions import Question, ask, check_answer, random_question
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

NUM_RUNNING = 4  #: each of them makes and evicts some twenty blocks while the scheduler sleeps


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    slow = ("--step-time-s", "0.002")
    names = ("scheduler", "unified", "router")
    async with running(tmp_path_factory.mktemp("directory"), names, is_patient=False, unified=slow) as stack:
        yield stack


async def agree(stack: Stack) -> None:
    """Wait until the directory holds as many blocks as the one executor's index; both are at rest."""
    await stack.quiescent()
    while (await stack.gauges("scheduler"))["directory_blocks"] != (await stack.gauges("unified"))["blocks_cached"]:
        await asyncio.sleep(0.02)


async def answers(stack: Stack, questions: list[Question]) -> None:
    for question, answer in zip(
        questions, await asyncio.gather(*(ask(stack.session, stack.url, q) for q in questions)), strict=True
    ):
        check_answer(question, answer)


async def test_als_02_a_directory_that_missed_evictions_is_right_again(shared: Stack) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        rng = random.Random(2)
        await answers(stack, [random_question(rng, 300, 5) for _ in range(20)])
        await agree(stack)
        for is_long in (False, True):  # within one session, and beyond its end
            asked = [random_question(rng, 20, 1)._replace(max_tokens=230) for _ in range(NUM_RUNNING)]
            running_ones = asyncio.ensure_future(answers(stack, asked))
            while (await stack.gauges("unified"))["sequences_running"] < NUM_RUNNING:
                await asyncio.sleep(0.005)
            stack.signal("scheduler", signal.SIGSTOP)
            if is_long:
                while (await stack.get(stack.http_port, "/ready"))[0] == 200:
                    await asyncio.sleep(0.02)
            await running_ones
            stack.signal("scheduler", signal.SIGCONT)
            await stack.ready()
            await agree(stack)
            await answers(stack, [question._replace(max_tokens=5) for question in asked])  # warm: their prefix is known
            await agree(stack)
