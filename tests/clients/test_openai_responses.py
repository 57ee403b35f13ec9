"""OpenAI's client and /v1/responses."""

from __future__ import annotations

from functools import partial
from typing import Any

import openai
import pytest

from tests.clients.asked import TEXT
from tests.services.router.rig import Rig, say
from tests.support.openai_callers import Caller


def respond(client: Any, **fields: Any) -> Any:
    return client.responses.create(**{"model": "tiny", "input": "hello", "max_output_tokens": 500} | fields)


@pytest.mark.parametrize("chunk", [1, 1000])
async def test_a_response_is_the_same_whole_and_streamed(rig: Rig, caller: Caller, chunk: int) -> None:
    rig.machine.script, rig.machine.chunk = say(TEXT), chunk
    whole = await caller.call(respond)
    assert (whole.output_text, whole.status, whole.incomplete_details) == (TEXT, "completed", None)
    events = await caller.read(partial(respond, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[-1].type, events[-1].response.output_text) == ("response.completed", TEXT)
    assert events[-1].response.usage == whole.usage
    assert whole.usage.output_tokens == len(TEXT.encode()) + 1


async def test_usage_may_be_asked_for_as_in_chats(rig: Rig, caller: Caller) -> None:
    """aiperf does so; the last event has the usage whatever is asked."""
    events = await caller.read(partial(respond, stream=True, stream_options={"include_usage": True}))
    assert events[-1].response.usage.output_tokens == 500


async def test_scores_come_with_the_text(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say("ab", "length")
    asked = partial(respond, include=["message.output_text.logprobs"], top_logprobs=1, max_output_tokens=2)
    scores = (await caller.call(asked)).output[0].content[0].logprobs
    assert [(score.token, score.logprob) for score in scores] == [("a", -0.5), ("b", -0.5)]
    events = await caller.read(partial(asked, stream=True))
    streamed = [score for event in events if event.type == "response.output_text.delta" for score in event.logprobs]
    assert [score.token for score in streamed] == ["a", "b"]


async def test_raw_responses_have_headers_and_the_same_answer(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(TEXT)
    raw = await caller.call(
        lambda client: client.responses.with_raw_response.create(model="tiny", input="x", max_output_tokens=99)
    )
    assert raw.parse().output_text == TEXT
    assert raw.headers["x-request-id"] == raw.request_id == raw.parse().id


@pytest.mark.parametrize("is_stream", [False, True])
async def test_what_is_not_here_is_a_bad_request_that_says_why(rig: Rig, caller: Caller, is_stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="not stored") as caught:
        await caller.call(partial(respond, previous_response_id="resp_1", stream=is_stream))
    assert caught.value.param == "previous_response_id"
    with pytest.raises(openai.NotFoundError):
        await caller.call(partial(respond, model="other", stream=is_stream))
    with pytest.raises(openai.NotFoundError, match="/v1/responses/resp_1"):
        await caller.call(lambda client: client.responses.retrieve("resp_1"))
