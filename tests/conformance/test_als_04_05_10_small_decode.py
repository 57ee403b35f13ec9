"""ALS-04, ALS-05, ALS-10: a decode executor with two slots, few blocks and a window of one piece is never wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.live import HANG_LIMIT_S, left_as_found, running
from tests.support.completions import Question, ask, check_answer, random_question
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE_BLOCK_BYTES = "256"  #: of the fake device's KV at 16 tokens a block
SMALL = ("--num-blocks", "25", "--growth-reserve", "16", "--num-slots", "2", "--window-bytes", ONE_BLOCK_BYTES)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    sending = ("--piece-bytes", ONE_BLOCK_BYTES, "--window-bytes", ONE_BLOCK_BYTES)
    async with running(tmp_path_factory.mktemp("small"), prefill=sending, decode=SMALL) as stack:
        yield stack


async def check_all(stack: Stack, questions: list[Question]) -> None:
    answers = await asyncio.gather(*(ask(stack.session, stack.url, question) for question in questions))
    for question, answer in zip(questions, answers, strict=True):
        check_answer(question, answer)


async def test_als_04_whoever_waits_for_decode_runs_into_no_timeout_of_the_hand_off(shared: Stack) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        rng = random.Random(4)
        await check_all(stack, [random_question(rng, 120, 20) for _ in range(32)])
        router = await stack.gauges("router")
        assert {name: count for name, count in router.items() if name.startswith("attempts_failed")} == {}


async def test_als_05_preempted_answers_have_every_token_once(shared: Stack) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        rng = random.Random(5)
        before = (await stack.gauges("decode")).get("preempted_total", 0)
        await check_all(stack, [random_question(rng, 30, 1)._replace(max_tokens=300) for _ in range(6)])
        assert (await stack.gauges("decode"))["preempted_total"] > before


async def test_als_10_both_ends_free_although_they_number_the_same_work_differently(shared: Stack) -> None:
    """A request with two choices is one sequence where it is prefilled and two where it is decoded, so that no id of
    one end means anything at the other."""
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        rng = random.Random(10)
        await check_all(stack, [random_question(rng, 60, 8)._replace(num_choices=2) for _ in range(12)])
