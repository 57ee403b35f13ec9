"""OpenAI's client and /v1/chat/completions: what a scripted model says arrives, whole and in parts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.clients.asked import MESSAGES, TEXT
from tests.services.router.rig import EOS, Rig, say
from tests.support.openai_callers import Caller


def chat(client: Any, **fields: Any) -> Any:
    return client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, "max_tokens": 500} | fields)


async def test_a_chat_is_answered(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(TEXT)
    answer = await caller.call(chat)
    (choice,) = answer.choices
    assert (choice.message.content, choice.message.role, choice.finish_reason) == (TEXT, "assistant", "stop")
    assert (choice.message.tool_calls, choice.message.refusal, choice.logprobs) == (None, None, None)
    assert answer.usage.completion_tokens == len(TEXT.encode()) + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("chunk", [1, 3, 1000])
async def test_a_streamed_chat_is_the_same_text(rig: Rig, caller: Caller, chunk: int) -> None:
    rig.machine.script, rig.machine.chunk = say(TEXT), chunk
    parts = await caller.read(partial(chat, stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts) == TEXT
    assert [part.choices[0].finish_reason for part in parts if part.choices[0].finish_reason] == ["stop"]
    assert [part.usage for part in parts if part.usage] == []


async def test_usage_is_the_last_part_if_it_is_asked_for(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(TEXT)
    whole = await caller.call(chat)
    parts = await caller.read(partial(chat, stream=True, stream_options={"include_usage": True}))
    assert [part.usage for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert (parts[-1].choices, parts[-1].usage) == ([], whole.usage)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_several_choices_have_their_own_texts(rig: Rig, caller: Caller, is_stream: bool) -> None:
    texts = ["one", "twofold", ""]
    rig.machine.script = lambda _, choice: ([*texts[choice].encode(), EOS], "stop")
    if not is_stream:
        answer = await caller.call(partial(chat, n=3))
        assert [choice.message.content for choice in answer.choices] == texts
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        return
    found = ["", "", ""]
    for part in await caller.read(partial(chat, n=3, stream=True)):
        found[part.choices[0].index] += part.choices[0].delta.content or ""
    assert found == texts


async def test_a_stop_string_cuts_whole_and_streamed_texts(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say("one, two, three")
    answer = await caller.call(partial(chat, stop=["zero", ", three"]))
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one, two", "stop")
    parts = await caller.read(partial(chat, stop=", three", stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "one, two"


async def test_log_probabilities_belong_to_the_tokens(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say("abc", "length")
    asked = partial(chat, logprobs=True, top_logprobs=2, max_tokens=3)
    (choice,) = (await caller.call(asked)).choices
    assert [(score.token, score.logprob, score.bytes) for score in choice.logprobs.content] == [
        ("a", -0.5, [97]), ("b", -0.5, [98]), ("c", -0.5, [99])
    ]  # fmt: skip
    assert [score.token for score in choice.logprobs.content[0].top_logprobs] == ["a", "b"]
    parts = await caller.read(partial(asked, stream=True))
    scores = [score for part in parts if part.choices[0].logprobs for score in part.choices[0].logprobs.content]
    assert scores == choice.logprobs.content


async def test_parameters_of_the_client_reach_the_machine(rig: Rig, caller: Caller) -> None:
    fields: dict[str, Any] = {"seed": 7, "temperature": 0.5, "top_p": 0.25, "max_completion_tokens": 9}
    fields |= {"presence_penalty": 0.5, "frequency_penalty": -0.5, "logit_bias": {"9": 3}, "user": "someone"}
    fields |= {"store": False, "metadata": {"k": "v"}, "service_tier": "auto", "parallel_tool_calls": None}
    fields |= {"modalities": ["text"], "prompt_cache_key": "one", "safety_identifier": "two", "max_tokens": None}
    await caller.call(partial(chat, extra_body={"top_k": 5, "min_p": 0.1}, **fields))
    sampling = rig.machine.arrives[1].sampling
    assert (sampling.seed, sampling.temperature, sampling.top_p, sampling.max_tokens) == (7, 0.5, 0.25, 9)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, -0.5)
    assert (sampling.logit_bias, sampling.top_k, sampling.min_p) == (((9, 3.0),), 5, 0.1)


async def test_raw_and_streamed_responses_have_headers_and_the_same_answer(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(TEXT)
    raw = await caller.call(lambda client: chat_of(client.chat.completions.with_raw_response))
    assert raw.headers["content-type"] == "application/json"
    assert raw.request_id == raw.headers["x-request-id"] != ""
    parsed = raw.parse()
    assert parsed.choices[0].message.content == TEXT
    assert (await caller.call(chat))._request_id


def chat_of(completions: Any) -> Any:
    return completions.create(model="tiny", messages=MESSAGES, max_tokens=500)
