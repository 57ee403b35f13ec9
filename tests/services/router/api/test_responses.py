"""/v1/responses as OpenAI's own client sees it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pydantic
import pytest

from baton.core.errors import Reason
from baton.core.router.events import Arrive, End
from tests.services.router.api.responses_stream import lasting, stream_of, told, typed
from tests.services.router.rig import Rig, prompt_ids, say

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    "strict": True,
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Rome"}}\n</tool_call>'


class Point(pydantic.BaseModel):
    x: int
    y: int


async def respond(rig: Rig, **fields: Any) -> dict[str, Any]:
    status, answer = await rig.post("/v1/responses", {"model": "tiny", "input": "hello"} | fields)
    assert status == 200, answer
    typed(answer)
    return answer


def text_of_prompt(arrive: Arrive) -> str:
    return bytes(token for token in prompt_ids(arrive) if token < 256).decode()


async def test_a_text_is_answered_with_its_usage(rig: Rig) -> None:
    rig.machine.script, rig.machine.num_cached_tokens = say("fine"), 3
    answer = await rig.client.responses.create(model="tiny", input="how are you?", instructions="be brief")
    assert (answer.output_text, answer.status, answer.error) == ("fine", "completed", None)
    assert answer.incomplete_details is None
    assert answer.id.startswith("resp_")
    arrive: Arrive = rig.machine.events[0]
    assert text_of_prompt(arrive) == "system\nbe brief\nuser\nhow are you?\nassistant\n"
    assert arrive.sampling.max_tokens == rig.front.limits.max_model_len - arrive.num_tokens
    usage = answer.usage
    assert (usage.input_tokens, usage.output_tokens) == (arrive.num_tokens, 5)
    assert usage.total_tokens == arrive.num_tokens + 5
    assert usage.input_tokens_details.cached_tokens == 3


def test_the_synchronous_client_works_too(rig_thread: Rig) -> None:
    client = openai.OpenAI(base_url=rig_thread.url + "/v1", api_key="none", max_retries=0)
    rig_thread.machine.script = say("good morning")
    with client:
        assert client.responses.create(model="tiny", input="x").output_text == "good morning"
        with client.responses.stream(model="tiny", input="x") as stream:
            deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
            assert "".join(deltas) == stream.get_final_response().output_text == "good morning"


async def test_an_output_at_its_limit_is_incomplete(rig: Rig) -> None:
    answer = await rig.client.responses.create(model="tiny", input="hello", max_output_tokens=5)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.output[0].status == "incomplete"
    assert (answer.usage.output_tokens, answer.completed_at) == (5, None)
    events = await stream_of(rig, max_output_tokens=5)
    assert events[-1]["type"] == "response.incomplete"
    assert lasting(told(events)) == lasting(answer.to_dict(mode="json"))


async def test_an_answer_says_what_was_asked_and_what_stood_for_the_rest(rig: Rig) -> None:
    rig.machine.script = say("fine")
    plain = await respond(rig)
    assert (plain["store"], plain["metadata"], plain["tools"], plain["tool_choice"]) == (False, {}, [], "auto")
    assert (plain["temperature"], plain["top_p"], plain["parallel_tool_calls"]) == (1.0, 1.0, True)
    assert plain["text"]["format"] == {"type": "text"}
    fields: dict[str, Any] = {
        "instructions": "be brief",
        "max_output_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.25,
        "tools": [WEATHER],
        "tool_choice": "none",
        "parallel_tool_calls": False,
        "metadata": {"k" * 64: "v" * 512},
        "user": "someone",
        "safety_identifier": "one",
        "prompt_cache_key": "two",
        "store": False,
    }
    for is_stream in (False, True):
        answer = told(await stream_of(rig, **fields)) if is_stream else await respond(rig, **fields)
        assert {name: answer[name] for name in fields} == fields


async def test_parameters_reach_the_machine_as_they_were_given(rig: Rig) -> None:
    fields = {"temperature": 0.5, "top_p": 0.9, "seed": 11, "priority": 3, "timeout": 12.5, "max_output_tokens": 9}
    nothing = {"previous_response_id": None, "conversation": None, "background": False, "include": [], "text": {}}
    nothing |= {"reasoning": {"effort": None}, "truncation": "disabled", "service_tier": "auto", "prompt": None}
    await respond(rig, cache_salt="mine", **fields, **nothing)
    await respond(rig)
    arrive, plain = (event for event in rig.machine.events if isinstance(event, Arrive))
    sampling = arrive.sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed, sampling.max_tokens) == (0.5, 0.9, 11, 9)
    assert (arrive.priority_class, arrive.timeout_s) == (3, 12.5)
    assert (arrive.prompt, arrive.root == plain.root) == (plain.prompt, False)


async def test_a_stream_tells_the_same_as_the_whole_answer(rig: Rig) -> None:
    texts = ["", "é", "good morning", CALL, f"Let me see.\n{CALL}\n{CALL}", f"{CALL}\nand more", CALL[:40]]
    for text in texts:
        for asked in ({}, {"tools": [WEATHER]}):
            for chunk in (1, 5, 1000):
                rig.machine.script, rig.machine.chunk = say(text), chunk
                whole = await respond(rig, **asked)
                assert lasting(told(await stream_of(rig, **asked))) == lasting(whole)
                if not asked:
                    (item,) = whole["output"]
                    assert item["content"][0]["text"] == text


async def test_a_call_its_result_and_the_answer(rig: Rig) -> None:
    rig.machine.script = say("Let me see.\n" + CALL)
    items: list[Any] = [{"role": "user", "content": "Is it warm?"}]
    first = await rig.client.responses.create(model="tiny", input=items, tools=[WEATHER])
    message, call = first.output
    assert (message.type, message.content[0].text) == ("message", "Let me see.\n")
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"place": "Rome"})
    assert (call.status, first.status) == ("completed", "completed")
    items += first.output
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"})
    rig.machine.script = say("It is.")
    second = await rig.client.responses.create(model="tiny", input=items, tools=[WEATHER])
    assert second.output_text == "It is."
    function = {"name": "weather", "arguments": call.arguments}
    calls = [{"id": call.call_id, "type": "function", "function": function}]
    called = {"role": "assistant", "content": "Let me see.\n", "tool_calls": calls}
    messages = [items[0], called, {"role": "tool", "tool_call_id": call.call_id, "content": "21 degrees"}]
    tool = {"type": "function", "function": {key: value for key, value in WEATHER.items() if key != "type"}}
    assert (await rig.chat(messages=messages, tools=[tool]))[0] == 200
    mine, chats = [event.prompt for event in rig.machine.events if isinstance(event, Arrive)][1:]
    assert mine == chats


async def test_the_clients_stream_and_parse_helpers_work(rig: Rig) -> None:
    rig.machine.script = say('{"x": 1, "y": 2}')
    parsed = await rig.client.responses.parse(model="tiny", input="where?", text_format=Point)
    assert parsed.output_parsed == Point(x=1, y=2)
    assert parsed.text.format.name == "Point"
    arrive: Arrive = rig.machine.events[0]
    assert "properties" in arrive.sampling.grammar
    async with rig.client.responses.stream(model="tiny", input=parsed.output, text_format=Point) as stream:
        done = [event async for event in stream if event.type == "response.output_text.done"]
        assert done[0].parsed == Point(x=1, y=2)
        assert (await stream.get_final_response()).output_parsed == Point(x=1, y=2)
    rig.machine.script = say(CALL)
    async with rig.client.responses.stream(model="tiny", input="warm?", tools=[WEATHER]) as stream:
        snapshots = [event.snapshot async for event in stream if event.type == "response.function_call_arguments.delta"]
        (call,) = (await stream.get_final_response()).output
    assert snapshots[-1] == call.arguments
    assert call.parsed_arguments == {"place": "Rome"}
    again = [
        call,
        {"type": "function_call_output", "call_id": call.call_id, "output": [{"type": "input_text", "text": "21"}]},
    ]
    assert (await rig.client.responses.parse(model="tiny", input=again, tools=[WEATHER])).output


async def test_output_tokens_have_their_scores(rig: Rig) -> None:
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    rig.machine.script = say("ab")
    (item,) = (await respond(rig, **asked))["output"]
    scores = item["content"][0]["logprobs"]
    assert [score["token"] for score in scores] == ["a", "b", "<|eos|>"]
    assert [len(score["top_logprobs"]) for score in scores] == [2, 2, 2]
    assert [score["logprob"] for score in scores] == [-0.5] * 3
    for text, kept in ((f"ab{CALL}", "ab"), (f"{CALL}cd", "cd"), ("a<b", "a<b")):
        for chunk in (1, 4, 1000):
            rig.machine.script, rig.machine.chunk = say(text, "length"), chunk
            whole = await respond(rig, tools=[WEATHER], max_output_tokens=len(text), **asked)
            assert lasting(told(await stream_of(rig, tools=[WEATHER], max_output_tokens=len(text), **asked))) == (
                lasting(whole)
            )
            (message,) = [item for item in whole["output"] if item["type"] == "message"]
            assert "".join(score["token"] for score in message["content"][0]["logprobs"]) == kept


async def test_a_failure_before_the_first_token_has_a_status_of_its_own(rig: Rig) -> None:
    rig.machine.refusal = End(0, Reason.QUEUE_FULL)
    for is_stream in (False, True):
        with pytest.raises(openai.RateLimitError):
            await rig.client.responses.create(model="tiny", input="x", stream=is_stream)


@pytest.mark.parametrize(
    ("reason", "code"), [(Reason.DEADLINE, "server_error"), (Reason.QUEUE_FULL, "rate_limit_exceeded")]
)
async def test_a_failure_after_the_first_token_is_the_streams_one_end(rig: Rig, reason: Reason, code: str) -> None:
    rig.machine.is_held = True
    reading = asyncio.create_task(stream_of(rig, input="hello"))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    rig.machine.deliver(1, 0, 3)
    rig.machine.end(1, reason)
    events = await reading
    answer = told(events)
    assert (answer["status"], answer["usage"]) == ("failed", None)
    assert (answer["error"]["code"], answer["error"]["reason"]) == (code, reason.name.lower())
    (item,) = answer["output"]
    assert item["status"] == "incomplete"
    assert item["content"][0]["text"] == "".join(event.get("delta", "") for event in events)
