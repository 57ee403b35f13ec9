"""RTR-02: what is over with its first token is over at prefill, whatever ended it. RTR-01 for every name of a length.

The fake device ends an answer by itself about once in four tokens; grammars say what the first token is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

pytest.importorskip("nixl", reason="the transport library is not installed")

from tests.conformance.live import HANG_LIMIT_S, left_as_found, running
from tests.conformance.test_rtr_01_hand_off import Outcome, all_outcomes
from tests.support.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEFAULT_LENGTH = 7
DEVICE = ("--end-one-in", "4", "--max-model-len", "384")
ROUTER = ("--default-max-tokens", str(DEFAULT_LENGTH))
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "of gods and men"}]}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "completion": ("/v1/completions", {"prompt": "of gods and men"}),
    "chat": ("/v1/chat/completions", CHAT),
    "tools": ("/v1/chat/completions", CHAT | {"tools": [TOOL]}),
}
#: what decides the first token: fields, the text by itself, and how many tokens count
FIRST = {
    "end": ({"guided_choice": [""]}, "", 1),
    "stop id": ({"guided_choice": ["a"], "stop_token_ids": [97]}, "", 1),
}


class Stacks(NamedTuple):
    pair: Stack
    alone: Stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stacks(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stacks]:
    folders = [tmp_path_factory.mktemp(name) for name in ("pair", "alone")]
    async with (
        running(folders[0], prefill=DEVICE, decode=DEVICE, router=ROUTER) as pair,
        running(folders[1], ("scheduler", "unified", "router"), unified=DEVICE, router=ROUTER) as alone,
    ):
        yield Stacks(pair, alone)


class Answered(NamedTuple):
    outcomes: list[Outcome]
    at_prefill: float  #: tokens sampled there
    at_decode: float


async def answered(stacks: Stacks, path: str, bodies: list[dict[str, Any]]) -> Answered:
    """By the pair, which leaves nothing behind and answers as one executor does."""
    names = ("prefill", "decode")
    async with (
        asyncio.timeout(HANG_LIMIT_S),
        left_as_found(stacks.pair, is_exact=False) as pair,
        left_as_found(stacks.alone, is_exact=False) as alone,
    ):
        before = [(await pair.gauges(name))["tokens_sampled_total"] for name in names]
        apart = await all_outcomes(pair, path, bodies)
        await pair.quiescent()
        sampled = [(await pair.gauges(name))["tokens_sampled_total"] for name in names]
        assert apart == await all_outcomes(alone, path, bodies)
        return Answered(apart, *(after - first for after, first in zip(sampled, before, strict=True)))


@pytest.mark.parametrize("asked", ASKED)
async def test_rtr_02_what_ends_with_its_first_token_has_no_decode_step(stacks: Stacks, asked: str) -> None:
    path, fields = ASKED[asked]
    expected, bodies = [], []
    for more, text, num_tokens in FIRST.values():
        for max_tokens in (1, 2, 5):
            for stream in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
                bodies.append({"model": "tiny", "seed": 1, "max_tokens": max_tokens} | fields | more | stream)
                expected.append(Outcome(200, "", {0: (text, ("stop",))}, num_tokens, is_complete=True))
    got = await answered(stacks, path, bodies)
    assert got.outcomes == expected
    assert (got.at_prefill, got.at_decode) == (len(bodies), 0)
    stopped = {"model": "tiny", "guided_choice": ["a"], "stop": ["a"]} | fields
    for max_tokens in (1, 2, 5):  # the router finds it, while decode may go on until it hears of it
        got = await answered(stacks, path, [stopped | {"max_tokens": max_tokens}])
        assert got.outcomes == [Outcome(200, "", {0: ("", ("stop",))}, 0, is_complete=True)]
        assert got.at_prefill == 1


@pytest.mark.parametrize("asked", ASKED)
async def test_rtr_02_a_grammar_of_one_token_ends_there_or_at_the_length(stacks: Stacks, asked: str) -> None:
    path, fields = ASKED[asked]
    bodies = [
        {"model": "tiny", "guided_choice": [text], "max_tokens": max_tokens} | fields
        for text in ("a", "ab")
        for max_tokens in (1, 2, 5)
    ]
    got = await answered(stacks, path, bodies)
    ends = [(*outcome.choices[0], outcome.num_output_tokens) for outcome in got.outcomes]
    assert ends == [
        ("a", ("length",), 1),
        ("a", ("stop",), 2),  # the end itself counts
        ("a", ("stop",), 2),
        ("a", ("length",), 1),
        ("ab", ("length",), 2),
        ("ab", ("stop",), 3),
    ]
    assert got.at_prefill == len(bodies)


async def test_rtr_02_an_end_that_is_ignored_goes_on_at_decode(stacks: Stacks) -> None:
    seeds = range(12)
    bodies = [
        {"model": "tiny", "prompt": "of gods and men", "seed": seed, "max_tokens": 5, "ignore_eos": ignores}
        for ignores in (False, True)
        for seed in seeds
    ]
    got = await answered(stacks, "/v1/completions", bodies)
    stopped, going_on = got.outcomes[: len(seeds)], got.outcomes[len(seeds) :]
    assert [one.num_output_tokens for one in stopped].count(1) > 0
    assert {one.num_output_tokens for one in going_on} == {5}
    assert {one.choices[0][1] for one in going_on} == {("length",)}


LENGTHS = {
    "/v1/completions": ("max_tokens", {"prompt": "of gods and men", "ignore_eos": True}),
    "/v1/chat/completions": ("max_completion_tokens", CHAT | {"ignore_eos": True}),
}


@pytest.mark.parametrize("path", LENGTHS)
async def test_rtr_01_a_length_that_is_absent_is_the_servers_on_both_legs(stacks: Stacks, path: str) -> None:
    name, fields = LENGTHS[path]
    wishes: list[dict[str, int]] = [{}, {name: 1}, {name: 5}, {name: 9}, {"min_tokens": 9}, {"min_tokens": 2}]
    got = await answered(stacks, path, [{"model": "tiny", "seed": 1} | fields | wish for wish in wishes])
    lengths = [outcome.num_output_tokens for outcome in got.outcomes]
    assert lengths == [DEFAULT_LENGTH, 1, 5, 9, 9, DEFAULT_LENGTH]
    assert got.at_prefill == len(wishes)


async def test_rtr_01_lengths_of_responses_are_those_of_one_executor(stacks: Stacks) -> None:
    bodies: list[dict[str, Any]] = [
        {"model": "tiny", "input": "of gods and men", "seed": seed} | length | stream
        for seed in range(6)
        for length in ({}, {"max_output_tokens": 1}, {"max_output_tokens": 5})
        for stream in ({}, {"stream": True})
    ]
    async with (
        asyncio.timeout(HANG_LIMIT_S),
        left_as_found(stacks.pair, is_exact=False) as pair,
        left_as_found(stacks.alone, is_exact=False) as alone,
    ):
        before = (await pair.gauges("prefill"))["tokens_sampled_total"]
        apart = [await response_to(pair, body) for body in bodies]
        sampled = (await pair.gauges("prefill"))["tokens_sampled_total"] - before
        assert apart == [await response_to(alone, body) for body in bodies]
    assert sampled == len(bodies)
    for body, (status, _, num_tokens) in zip(bodies, apart, strict=True):
        limit = body.get("max_output_tokens", DEFAULT_LENGTH)
        assert num_tokens == limit if status == "incomplete" else num_tokens <= limit
    assert {status for status, _, _ in apart} == {"completed", "incomplete"}


async def response_to(stack: Stack, body: dict[str, Any]) -> tuple[str, str, int]:
    """(status, text, output tokens); of a stream, from its last event."""
    async with stack.session.post(stack.url + "/v1/responses", json=body) as response:
        text = await response.text()
        assert response.status == 200, text
    if body.get("stream"):
        text = text.strip().split("\n\n")[-1].split("data: ", 1)[1]
    told = json.loads(text)
    told = told.get("response", told)
    parts = [part["text"] for item in told["output"] for part in item["content"]]
    return told["status"], "".join(parts), told["usage"]["output_tokens"]
