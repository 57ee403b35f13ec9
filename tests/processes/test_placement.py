"""R on real processes: prompts that are computed where they decode have exactly the tokens that they would have."""

from __future__ import annotations

import asyncio

from tests.processes.conftest import Stage
from tests.support.completions import Question, ask, check_answer
from tests.support.stack import Stack

BY_TOKENS = ("--placement", "by_tokens", "--local-prompt-tokens", "64")
FIRST = Question(tuple(range(200)), 40, 1)


async def answered(stack: Stack, question: Question) -> str:
    """Why its prompt was computed where it was; its tokens are right."""
    answer = await ask(stack.session, stack.url, question)
    check_answer(question, answer)
    return answer.placement


async def until_gauge(stack: Stack, name: str, gauge: str, least: float) -> None:
    while (await stack.gauges(name))[gauge] < least:
        await asyncio.sleep(0.01)


def test_r2_the_second_turn_of_a_conversation_is_computed_where_the_first_lies(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        assert await answered(stack, FIRST) == "pd"
        await until_gauge(stack, "scheduler", "directory_blocks", 12)
        second = Question((*FIRST.prompt, *range(40)), 20, 2)
        assert await answered(stack, second) == "cached"
        assert await answered(stack, Question((7,) * 30, 20, 3)) == "short"
        assert await answered(stack, Question((9,) * 200, 20, 4)) == "pd"
        gauges = await stack.gauges("scheduler")
        assert [gauges[f"placed_{why}_total"] for why in ("pd", "cached", "short")] == [2, 1, 1]
        assert (await stack.gauges("decode"))["prompt_tokens_computed_total"] <= 40 + 16 + 30
        await stack.quiescent()

    stage.run(story, scheduler=BY_TOKENS)


def test_r2_without_a_prefill_executor_prompts_are_computed_where_they_decode(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        assert await answered(stack, FIRST) == "pd"
        await stack.kill("prefill")
        assert await answered(stack, Question((5,) * 150, 20, 2)) == "p_down"
        assert (await stack.gauges("scheduler"))["placed_p_down_total"] == 1
        await stack.quiescent()

    stage.run(story, scheduler=("--strict-pd", "false"))


def test_r3_strict_refuses_when_no_prefill_executor_comes_back(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        assert await answered(stack, FIRST) == "pd"
        await stack.kill("prefill")
        answer = await ask(stack.session, stack.url, Question((5,) * 150, 20, 2))
        assert (answer.status, answer.error) == (503, "no_executor")
        stack.start("prefill")
        await stack.ready()
        assert await answered(stack, Question((5,) * 150, 20, 2)) == "pd"

    stage.run(story, scheduler=("--absent-s", "0.5"))
