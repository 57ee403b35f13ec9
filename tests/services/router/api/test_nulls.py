"""Clients of OpenAI's API write null for what they leave out: it is taken of every field that their library knows."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from openai.types import completion_create_params as completion
from openai.types import responses, shared_params
from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionContentPartTextParam,
    ChatCompletionStreamOptionsParam,
    ChatCompletionSystemMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params, response_input_item_param

from tests.conformance.surface import PLAIN, TOOL, USER
from tests.services.router.rig import Rig

COMPLETIONS, CHATS, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
Fields = dict[str, Any]
FLAT_TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
CALL_ITEM = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
RESULT_ITEM = {"type": "function_call_output", "call_id": "a", "output": "x"}


def of_message(message: Fields) -> Fields:
    return {"messages": [USER, message]}


#: what the library calls it → the endpoint, the object in a body that needs nothing more, and where that object stands
KINDS: dict[type, tuple[str, Fields, typing.Callable[[Fields], Fields]]] = {
    completion.CompletionCreateParamsBase: (COMPLETIONS, PLAIN[COMPLETIONS], dict),
    chat.CompletionCreateParamsBase: (CHATS, PLAIN[CHATS], dict),
    ChatCompletionStreamOptionsParam: (CHATS, {}, lambda inner: {"stream": True, "stream_options": inner}),
    ChatCompletionSystemMessageParam: (CHATS, {"role": "system", "content": "x"}, of_message),
    ChatCompletionUserMessageParam: (CHATS, USER, of_message),
    ChatCompletionAssistantMessageParam: (CHATS, {"role": "assistant", "content": "x"}, of_message),
    ChatCompletionContentPartTextParam: (
        CHATS,
        {"type": "text", "text": "x"},
        lambda inner: of_message(USER | {"content": [inner]}),
    ),
    shared_params.FunctionDefinition: (
        CHATS,
        TOOL["function"],
        lambda inner: {"tools": [{"type": "function", "function": inner}]},
    ),
    response_create_params.ResponseCreateParamsBase: (RESPONSES, PLAIN[RESPONSES], dict),
    response_create_params.StreamOptions: (RESPONSES, {}, lambda inner: {"stream": True, "stream_options": inner}),
    shared_params.Reasoning: (RESPONSES, {}, lambda inner: {"reasoning": inner}),
    responses.ResponseTextConfigParam: (RESPONSES, {}, lambda inner: {"text": inner}),
    responses.FunctionToolParam: (RESPONSES, FLAT_TOOL, lambda inner: {"tools": [inner]}),
    responses.EasyInputMessageParam: (RESPONSES, USER | {"type": "message"}, lambda inner: {"input": [inner]}),
    responses.ResponseInputTextParam: (
        RESPONSES,
        {"type": "input_text", "text": "x"},
        lambda inner: {"input": [USER | {"content": [inner]}]},
    ),
    responses.ResponseFunctionToolCallParam: (
        RESPONSES,
        CALL_ITEM,
        lambda inner: {"input": [USER, inner, RESULT_ITEM]},
    ),
    response_input_item_param.FunctionCallOutput: (
        RESPONSES,
        RESULT_ITEM,
        lambda inner: {"input": [USER, CALL_ITEM, inner]},
    ),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_null_is_as_good_as_absent_in_every_field_that_the_library_knows(rig: Rig, kind: type) -> None:
    path, least, placed = KINDS[kind]
    known = {name for name in typing.get_type_hints(kind) if name not in least}
    body = PLAIN[path] | placed(least | dict.fromkeys(known))
    async with rig.http.post(rig.url + path, json=body) as response:
        assert response.status == 200, await response.text()
        await response.read()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("value", [None, 1, "x"])
async def test_a_field_that_nobody_knows_is_refused_by_name_whatever_it_holds(rig: Rig, kind: type, value: Any) -> None:
    path, least, placed = KINDS[kind]
    status, answer = await rig.post(path, PLAIN[path] | placed(least | {"nobodys": value}))
    assert (status, answer["error"]["code"]) == (400, "unsupported_parameter")
    assert answer["error"]["param"].split(".")[-1] == "nobodys"
    assert rig.machine.events == []


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHATS, {"reasoning_effort": "low"}, "reasoning_effort"),
        (CHATS, {"functions": []}, "functions"),
        (CHATS, of_message(USER | {"audio": {"id": "x"}}), "messages[1].audio"),
        (RESPONSES, {"moderation": {"model": "x"}}, "moderation"),
        (RESPONSES, {"input": [CALL_ITEM | {"async": True}]}, "input[0].async"),
        (RESPONSES, {"reasoning": {"mode": "x"}}, "reasoning.mode"),
    ],
)
async def test_such_a_field_with_a_value_is_refused_by_name(
    rig: Rig, path: str, fields: Fields, param: str
) -> None:
    status, answer = await rig.post(path, PLAIN[path] | fields)
    assert (status, answer["error"]["param"]) == (400, param)
    assert (answer["error"]["code"], answer["error"]["message"]) == (
        "unsupported_parameter",
        f"{param} is not supported",
    )
