"""P7 on real processes: of many prompts with one long prefix one computes it, on a cold cache."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.processes.conftest import Stage
from tests.support.completions import NUM_DRAWN_TOKENS, Question, ask, check_answer
from tests.support.stack import Stack

NUM_SHARED = 640  #: tokens, whole blocks
#: a token takes long enough to be worth a wait; all prompts fit at once
FLAGS = ("--num-blocks", "8192", "--num-slots", "256", "--token-budget", "256", "--token-time-s", "0.0005")


def questions(rng: random.Random, count: int, num_shared: int) -> list[Question]:
    shared = tuple(rng.randrange(NUM_DRAWN_TOKENS) for _ in range(num_shared))
    return [
        Question((*shared, *(rng.randrange(NUM_DRAWN_TOKENS) for _ in range(8))), 4, rng.getrandbits(32))
        for _ in range(count)
    ]


async def ask_all(stack: Stack, asked: list[Question]) -> None:
    answers = await asyncio.gather(*(ask(stack.session, stack.url, question) for question in asked))
    for question, answer in zip(asked, answers, strict=True):
        check_answer(question, answer)
    await stack.quiescent()


@pytest.mark.parametrize("is_on", [True, False])
def test_p7_128_requests_with_one_long_prefix_compute_it_once(stage: Stage, is_on: bool) -> None:
    async def story(stack: Stack) -> None:
        rng = random.Random(3)
        await ask_all(stack, questions(rng, 4, 16))  # whatever is measured is measured
        before = await stack.gauges("prefill")
        asked = questions(rng, 128, NUM_SHARED)
        await ask_all(stack, asked)
        after, scheduler = await stack.gauges("prefill"), await stack.gauges("scheduler")
        computed = after["prompt_tokens_computed_total"] - before["prompt_tokens_computed_total"]
        once = NUM_SHARED + sum(len(question.prompt) - NUM_SHARED for question in asked)
        if is_on:
            assert computed == once
            assert scheduler["prefix_waits_begun_total"] > 0
            assert scheduler["prefix_waiting"] == 0
        else:
            assert computed > once
            assert "prefix_waits_begun_total" not in scheduler

    off = () if is_on else ("--prefix-wait", "false")
    stage.run(story, prefill=FLAGS, decode=FLAGS, scheduler=off)
