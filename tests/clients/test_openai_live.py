"""OpenAI's client against real processes: a model of random weights, so what is demanded holds by the grammar alone."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import jsonschema
import pytest

from tests.clients.asked import FUNCTION, MESSAGES, RESPONSES_TOOL, TOOL, Point
from tests.parity.live import LiveStack
from tests.support.openai_callers import Caller

SEEDS = (1, 2)
NUM_TOKENS = 600  #: enough for any value of the schemas
NAMED: Any = {"type": "function", "function": {"name": "weather"}}
NAMED_RESPONSE: Any = {"type": "function", "name": "weather"}


@pytest.fixture
def name(live: LiveStack) -> str:
    return live.names.model


def chat(model: str, client: Any, method: str = "create", **fields: Any) -> Any:
    return getattr(client.chat.completions, method)(model=model, messages=MESSAGES, **fields)


def respond(model: str, client: Any, method: str = "create", seed: int = 0, **fields: Any) -> Any:
    return getattr(client.responses, method)(model=model, input="how is it?", extra_body={"seed": seed}, **fields)


async def test_chats_have_the_same_values_streamed_and_whole(live_caller: Caller, name: str) -> None:
    asked = partial(chat, name, n=2, seed=3, max_tokens=24, logprobs=True, top_logprobs=2)
    whole = await live_caller.call(asked)
    parts = await live_caller.read(partial(asked, stream=True, stream_options={"include_usage": True}))
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens
    for choice in whole.choices:
        mine = [part.choices[0] for part in parts[:-1] if part.choices[0].index == choice.index]
        assert "".join(part.delta.content or "" for part in mine) == choice.message.content
        assert [part.finish_reason for part in mine if part.finish_reason] == [choice.finish_reason]
        scores = [score for part in mine if part.logprobs for score in part.logprobs.content]
        assert scores == choice.logprobs.content != []
    assert whole.choices[0].message.content != whole.choices[1].message.content


async def test_a_seed_gives_its_completion_again_and_another_gives_another(live_caller: Caller, name: str) -> None:
    def complete(client: Any, **fields: Any) -> Any:
        return client.completions.create(model=name, prompt="how is it?", max_tokens=24, **fields)

    texts = [(await live_caller.call(partial(complete, seed=seed))).choices[0].text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    parts = await live_caller.read(partial(complete, seed=1, stream=True))
    assert "".join(part.choices[0].text for part in parts) == texts[0]


async def test_responses_have_the_same_text_streamed_and_whole(live_caller: Caller, name: str) -> None:
    asked = partial(respond, name, seed=3, max_output_tokens=24)
    whole = await live_caller.call(asked)
    events = await live_caller.read(partial(asked, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage == whole.usage


@pytest.mark.parametrize("seed", SEEDS)
async def test_structured_output_is_what_was_asked_for(live_caller: Caller, name: str, seed: int) -> None:
    asked = partial(chat, name, response_format=Point, seed=seed, max_tokens=NUM_TOKENS)
    parsed = (await live_caller.call(partial(asked, method="parse"))).choices[0].message.parsed
    assert isinstance(parsed, Point)
    _, final = await live_caller.run_stream(partial(asked, method="stream"), "get_final_completion")
    assert final.choices[0].message.parsed == parsed
    asked = partial(respond, name, text_format=Point, seed=seed, max_output_tokens=NUM_TOKENS)
    parsed = (await live_caller.call(partial(asked, method="parse"))).output_parsed
    assert isinstance(parsed, Point)
    _, final = await live_caller.run_stream(partial(asked, method="stream"), "get_final_response")
    assert final.output_parsed == parsed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("choice", ["required", NAMED])
async def test_a_demanded_call_is_one(live_caller: Caller, name: str, choice: Any, seed: int) -> None:
    asked = partial(chat, name, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False, seed=seed)
    asked = partial(asked, max_tokens=NUM_TOKENS)
    whole = (await live_caller.call(asked)).choices[0]
    assert whole.finish_reason == ("tool_calls" if choice == "required" else "stop")
    (call,) = whole.message.tool_calls
    assert call.function.name == "weather"
    jsonschema.validate(json.loads(call.function.arguments), FUNCTION["parameters"])
    parts = await live_caller.read(partial(asked, stream=True))
    calls = [call for part in parts for call in part.choices[0].delta.tool_calls or ()]
    assert "".join(call.function.arguments or "" for call in calls) == call.function.arguments


@pytest.mark.parametrize("choice", ["required", NAMED_RESPONSE])
async def test_a_demanded_call_of_a_response_is_one(live_caller: Caller, name: str, choice: Any) -> None:
    asked = partial(respond, name, tools=[RESPONSES_TOOL], tool_choice=choice, parallel_tool_calls=False, seed=1)
    asked = partial(asked, max_output_tokens=NUM_TOKENS)
    (call,) = (await live_caller.call(asked)).output
    assert (call.type, call.name, call.status) == ("function_call", "weather", "completed")
    jsonschema.validate(json.loads(call.arguments), FUNCTION["parameters"])
    events = await live_caller.read(partial(asked, stream=True))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call.arguments


async def test_streams_that_are_left_leave_nothing_behind(live: LiveStack, live_caller: Caller, name: str) -> None:
    fields = {"max_tokens": 2000, "extra_body": {"ignore_eos": True}, "stream": True}
    await asyncio.gather(*(live_caller.leave(partial(chat, name, **fields)) for _ in range(4)))
    await asyncio.to_thread(live.run, live.stack.quiescent())
