"""OpenAI's client: tools in chats and responses, demanded or not, streamed or not, and back with their results."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import openai
import pytest

from tests.clients.asked import CALL, MESSAGES, POINT, RESPONSES_TOOL, TOOL, Point
from tests.services.router.rig import Rig, prompt_ids, say
from tests.support.openai_callers import Caller

NAMED: Any = {"type": "function", "function": {"name": "weather"}}
ARGUMENTS = {"town": "Köln 😀"}


def ask(method: str, client: Any, **fields: Any) -> Any:
    asked = {"model": "tiny", "messages": MESSAGES, "tools": [TOOL], "max_tokens": 500}
    return getattr(client.chat.completions, method)(**asked | fields)


def shown(rig: Rig) -> str:
    """The last prompt."""
    return bytes(token for token in prompt_ids(list(rig.machine.arrives.values())[-1]) if token < 256).decode()


async def test_a_call_goes_round_with_its_result(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(f"Let me see.\n{CALL}")
    first = (await caller.call(partial(ask, "create"))).choices[0]
    (call,) = first.message.tool_calls
    assert (first.finish_reason, call.type, call.function.name) == ("tool_calls", "function", "weather")
    assert json.loads(call.function.arguments) == ARGUMENTS
    rig.machine.script = say("It rains.")
    # The message goes back as the object that came, as OpenAI's examples do it.
    messages = [*MESSAGES, first.message, {"role": "tool", "tool_call_id": call.id, "content": "rain, 9 degrees"}]
    second = await caller.call(partial(ask, "create", messages=messages))
    assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("It rains.", "stop")
    assert "rain, 9 degrees" in shown(rig)


@pytest.mark.parametrize(("choice", "finish"), [("required", "tool_calls"), (NAMED, "stop")])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
async def test_a_demanded_call_comes_in_parts_that_add_up(
    rig: Rig, caller: Caller, choice: Any, finish: str, chunk: int
) -> None:
    rig.machine.script, rig.machine.chunk = say(CALL), chunk
    whole = (await caller.call(partial(ask, "create", tool_choice=choice))).choices[0]
    parts = [part.choices[0] for part in await caller.read(partial(ask, "create", tool_choice=choice, stream=True))]
    calls = [call for part in parts for call in part.delta.tool_calls or ()]
    assert (calls[0].function.name, calls[0].type, {call.index for call in calls}) == ("weather", "function", {0})
    assert calls[0].id.startswith("call_")
    assert "".join(call.function.arguments or "" for call in calls) == whole.message.tool_calls[0].function.arguments
    assert parts[-1].finish_reason == whole.finish_reason == finish
    assert "weather" in rig.machine.arrives[2].sampling.grammar


async def test_the_clients_own_tool_types_are_parsed(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say(CALL + "\n" + CALL)
    answer = await caller.call(partial(ask, "parse"))
    assert [call.function.parsed_arguments for call in answer.choices[0].message.tool_calls] == [ARGUMENTS] * 2
    events, final = await caller.run_stream(partial(ask, "stream"), "get_final_completion")
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [(event.index, event.name, event.parsed_arguments) for event in done] == [
        (0, "weather", ARGUMENTS), (1, "weather", ARGUMENTS)
    ]  # fmt: skip
    assert len({call.id for call in final.choices[0].message.tool_calls}) == 2


async def test_a_response_goes_round_with_its_call(rig: Rig, caller: Caller) -> None:
    def respond(client: Any, **fields: Any) -> Any:
        return client.responses.create(model="tiny", tools=[RESPONSES_TOOL], **fields)

    rig.machine.script = say(CALL)
    first = await caller.call(partial(respond, input="warm?", tool_choice="required"))
    (call,) = first.output
    assert json.loads(call.arguments) == ARGUMENTS
    events = await caller.read(partial(respond, input="warm?", tool_choice="required", stream=True))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call.arguments
    rig.machine.script = say("It is.")
    items = [{"role": "user", "content": "warm?"}, *first.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"})
    assert (await caller.call(partial(respond, input=items))).output_text == "It is."
    assert "21 degrees" in shown(rig)


async def test_tools_made_from_types_are_taken(rig: Rig, caller: Caller) -> None:
    rig.machine.script = say('<tool_call>\n{"name": "Point", "arguments": ' + POINT + "}\n</tool_call>")
    tool = openai.pydantic_function_tool(Point)
    answer = await caller.call(partial(ask, "parse", tools=[tool]))
    assert answer.choices[0].message.tool_calls[0].function.parsed_arguments == Point(side="left", is_far=True)
