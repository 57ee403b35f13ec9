"""RTR-01: however a length and an end are asked for, two executors answer as one does, and prefill samples one token.

The fake device ends an answer by itself about once in four tokens, so that `ignore_eos` and `min_tokens` matter.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from itertools import product
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.conformance.live import HANG_LIMIT_S, left_as_found, running
from tests.support.completions import Question, expected_tokens
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

DEVICE = ("--end-one-in", "4", "--max-model-len", "64")
NUM_AT_ONCE = 8
NUM_COMBINATIONS = 160  #: of each endpoint
ABSENT = None
PROMPT = tuple(b"of gods and men")
MESSAGES = [{"role": "user", "content": "of gods and men"}]


class Stacks(NamedTuple):
    pair: Stack
    alone: Stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stacks(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stacks]:
    folders = [tmp_path_factory.mktemp(name) for name in ("pair", "alone")]
    async with (
        running(folders[0], prefill=DEVICE, decode=DEVICE) as pair,
        running(folders[1], ("scheduler", "unified", "router"), unified=DEVICE) as alone,
    ):
        yield Stacks(pair, alone)


def readable_seed() -> int:
    """A seed under which the first and the third token of the completion are different letters."""
    for seed in range(100_000):
        first, _, third = expected_tokens(Question(PROMPT, 3, seed))
        if first.isalpha() and third.isalpha() and first != third:
            return seed
    raise AssertionError("no such seed")


def bodies(path: str) -> list[dict[str, Any]]:
    """Some of all combinations, always the same; what is ABSENT is left out."""
    seed = readable_seed()
    letters = expected_tokens(Question(PROMPT, 3, seed))
    is_chat = path == "/v1/chat/completions"
    ways = product(
        (ABSENT, 1, 5),
        (ABSENT, 5) if is_chat else (ABSENT,),
        (ABSENT, 0, 5),
        (ABSENT, 2),
        (ABSENT, letters[0], ["~~", letters[2]]),
        ((ABSENT, ABSENT), (True, ABSENT), (True, {"include_usage": True}), (ABSENT, {"include_usage": True})),
        (ABSENT, True),
    )
    made = []
    for max_tokens, max_completion_tokens, min_tokens, num, stop, (stream, options), ignore_eos in random.Random(
        1
    ).sample(list(ways), NUM_COMBINATIONS):
        fields = {"max_tokens": max_tokens, "max_completion_tokens": max_completion_tokens, "min_tokens": min_tokens}
        fields |= {"n": num, "stop": stop, "stream": stream, "stream_options": options, "ignore_eos": ignore_eos}
        body = {name: value for name, value in fields.items() if value is not ABSENT}
        asked = {"messages": MESSAGES} if is_chat else {"prompt": list(PROMPT)}
        made.append({"model": "tiny", "seed": seed, "temperature": 1.0} | asked | body)
    return made


class Outcome(NamedTuple):
    """What of an answer may not depend on who computed it."""

    status: int
    error: str
    choices: dict[int, tuple[str, tuple[str, ...]]]  #: index → text, every finish reason
    num_output_tokens: int | None  #: from usage, where it came
    is_complete: bool


async def outcome(stack: Stack, path: str, body: dict[str, Any]) -> Outcome:
    async with stack.session.post(stack.url + path, json=body) as response:
        text = await response.text()
        if response.status != 200:
            return Outcome(response.status, json.loads(text)["error"]["message"], {}, None, False)
    if not body.get("stream"):
        return gathered([json.loads(text)], True)
    events = [event.removeprefix("data: ") for event in text.strip().split("\n\n")]
    return gathered([json.loads(event) for event in events if event != "[DONE]"], events[-1] == "[DONE]")


def gathered(parts: list[dict[str, Any]], is_complete: bool) -> Outcome:
    choices: dict[int, tuple[str, tuple[str, ...]]] = {}
    num_output_tokens = None
    for part in parts:
        if part.get("usage"):
            num_output_tokens = part["usage"]["completion_tokens"]
        for choice in part["choices"]:
            said = choice.get("message") or choice.get("delta") or choice
            text, finishes = choices.get(choice["index"], ("", ()))
            finish = choice["finish_reason"]
            text += said.get("content") or said.get("text") or ""
            choices[choice["index"]] = (text, finishes + ((finish,) if finish else ()))
    return Outcome(200, "", choices, num_output_tokens, is_complete)


async def all_outcomes(stack: Stack, path: str, asked: list[dict[str, Any]]) -> list[Outcome]:
    free = asyncio.Semaphore(NUM_AT_ONCE)

    async def one(body: dict[str, Any]) -> Outcome:
        async with free:
            return await outcome(stack, path, body)

    return list(await asyncio.gather(*(one(body) for body in asked)))


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_rtr_01_a_pair_answers_as_one_executor_does_and_prefill_samples_one_token(
    stacks: Stacks, path: str
) -> None:
    asked = bodies(path)
    async with (
        asyncio.timeout(HANG_LIMIT_S),
        left_as_found(stacks.pair, is_exact=False) as pair,
        left_as_found(stacks.alone, is_exact=False) as alone,
    ):
        before = await pair.gauges("prefill")
        apart, together = await asyncio.gather(all_outcomes(pair, path, asked), all_outcomes(alone, path, asked))
        for body, one, other in zip(asked, apart, together, strict=True):
            assert one == other, body
            if one.status == 200:
                check_shape(body, one)
        answered = [body for body, one in zip(asked, apart, strict=True) if one.status == 200]
        sampled = (await pair.gauges("prefill"))["tokens_sampled_total"] - before["tokens_sampled_total"]
        assert sampled == sum(body.get("n", 1) for body in answered)
    assert 0 < len(answered) < len(asked)


def check_shape(body: dict[str, Any], one: Outcome) -> None:
    num_choices = body.get("n", 1)
    assert one.is_complete
    assert sorted(one.choices) == list(range(num_choices))
    assert all(len(finishes) == 1 for _, finishes in one.choices.values()), one
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if one.num_output_tokens is not None and limit is not None:
        assert one.num_output_tokens <= limit * num_choices
        if "stop" not in body and body.get("ignore_eos"):
            assert one.num_output_tokens == limit * num_choices
