"""OpenAI's client: structured output through its `parse` and `stream` methods."""

from __future__ import annotations

from functools import partial
from typing import Any

import openai
import pytest

from tests.clients.asked import MESSAGES, POINT, Point
from tests.services.router.rig import Rig, say
from tests.support.openai_callers import Caller


def ask(method: str, client: Any, **fields: Any) -> Any:
    asked = {"model": "tiny", "messages": MESSAGES, "response_format": Point, "max_tokens": 500}
    return getattr(client.chat.completions, method)(**asked | fields)


def respond(method: str, client: Any, **fields: Any) -> Any:
    return getattr(client.responses, method)(**{"model": "tiny", "input": "where?", "text_format": Point} | fields)


async def test_parsed_is_the_type_that_was_asked_for(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(POINT)
    answer = await caller.call(partial(ask, "parse"))
    assert answer.choices[0].message.parsed == Point(side="left", is_far=True)
    assert "is_far" in rig.machine.arrives[1].sampling.grammar
    response = await caller.call(partial(respond, "parse"))
    assert response.output_parsed == Point(side="left", is_far=True)
    assert rig.machine.arrives[2].sampling.grammar == rig.machine.arrives[1].sampling.grammar


@pytest.mark.parametrize("chunk", [1, 5, 1000])
async def test_events_of_a_streamed_chat_end_with_what_is_parsed(rig: Rig, caller: Caller, chunk: int) -> None:
    rig.machine.script, rig.machine.chunk = say(POINT), chunk
    options = {"stream_options": {"include_usage": True}}
    events, final = await caller.run_stream(partial(ask, "stream", **options), "get_final_completion")
    deltas = [event for event in events if event.type == "content.delta"]
    assert "".join(event.delta for event in deltas) == deltas[-1].snapshot == POINT
    (done,) = [event for event in events if event.type == "content.done"]
    assert done.parsed == final.choices[0].message.parsed == Point(side="left", is_far=True)
    assert final.usage.completion_tokens == len(POINT) + 1


async def test_events_of_a_streamed_chat_tell_its_scores(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say("ab")
    asked = {"model": "tiny", "messages": MESSAGES, "logprobs": True}
    stream = lambda client: client.chat.completions.stream(**asked)  # noqa: E731
    events, final = await caller.run_stream(stream, "get_final_completion")
    (done,) = [event for event in events if event.type == "logprobs.content.done"]
    assert [score.token for score in done.content] == ["a", "b", "<|eos|>"]
    assert final.choices[0].logprobs.content == done.content


async def test_events_of_a_streamed_response_end_with_what_is_parsed(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(POINT)
    events, final = await caller.run_stream(partial(respond, "stream"), "get_final_response")
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == final.output_text == POINT
    assert final.output_parsed == Point(side="left", is_far=True)


async def test_an_answer_at_its_limit_is_no_parsed_one(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(POINT)
    with pytest.raises(openai.LengthFinishReasonError):
        await caller.call(partial(ask, "parse", max_tokens=5))
    with pytest.raises(openai.LengthFinishReasonError):
        await caller.run_stream(partial(ask, "stream", max_tokens=5), "get_final_completion")
