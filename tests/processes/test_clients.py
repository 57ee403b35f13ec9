"""Clients that leave in the middle, many at once, and answers with several choices: nothing stays held."""

from __future__ import annotations

import asyncio
import random

from tests.processes.conftest import Stage
from tests.processes.test_deaths import settle
from tests.support.completions import Question, ask, check_answer, random_question
from tests.support.load import Load
from tests.support.stack import Stack


async def leave_after(stack: Stack, question: Question, num_lines: int) -> None:
    """Read so many lines of the stream, then close the connection."""
    async with stack.session.post(f"{stack.url}/v1/completions", json=question.body()) as response:
        for _ in range(num_lines):
            await response.content.readline()
        response.close()


def test_clients_that_leave_anywhere_in_their_stream_leave_nothing_behind(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        rng = random.Random(5)
        load = Load(stack, num_clients=4)
        for _ in range(10):
            questions = [random_question(rng, 300, 200) for _ in range(10)]
            await asyncio.gather(*(leave_after(stack, question, rng.randrange(12)) for question in questions))
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story)


def test_zmq01_a_thousand_requests_at_once_lose_no_token(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        rng = random.Random(6)
        questions = [random_question(rng, 20, 8) for _ in range(1000)]
        answers = await asyncio.gather(*(ask(stack.session, stack.url, question) for question in questions))
        for question, answer in zip(questions, answers, strict=True):
            check_answer(question, answer)
        await stack.quiescent()

    stage.run(story)


def test_g7_every_choice_has_its_own_tokens_and_one_finish(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        rng = random.Random(7)
        questions = [random_question(rng, 60, 20)._replace(num_choices=3) for _ in range(20)]
        for question, answer in zip(
            questions,
            await asyncio.gather(*(ask(stack.session, stack.url, question) for question in questions)),
            strict=True,
        ):
            check_answer(question, answer)
        await stack.quiescent()

    stage.run(story)
