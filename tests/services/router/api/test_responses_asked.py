"""What /v1/responses takes: conversations as items, and refusals that name the field as the client knows it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.api.ask import Ask
from baton.services.router.api.bodies import ChatBody
from baton.services.router.api.chat_ask import chat_ask
from baton.services.router.api.responses_ask import responses_ask
from baton.services.router.api.responses_bodies import CallItem, MessageItem, ResponsesBody, ResultItem
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.http.body import decode_body
from tests.services.router.api.test_validate import JSON
from tests.services.router.rig import Rig

CONFIG = HttpConfig(served_names=("tiny",), max_messages=8, max_content_parts=3)
FIELDS = sorted({*ResponsesBody.__struct_fields__, "stop", "n", "kv_transfer_params"} - {"model"})
ITEM_FIELDS = sorted(
    {"type", *MessageItem.__struct_fields__, *CallItem.__struct_fields__, *ResultItem.__struct_fields__}
)
TOOL = {"type": "function", "name": "f", "description": "does it", "parameters": {"type": "object"}, "strict": False}
CHAT_TOOL = {"type": "function", "function": {key: value for key, value in TOOL.items() if key != "type"}}
CALL = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "1", "output": "done"}
USER = {"role": "user", "content": "x"}


def asked(**fields: Any) -> Ask:
    body = json.dumps({"model": "tiny", "input": "x"} | fields).encode()
    return responses_ask(decode_body(body, ResponsesBody), 260, CONFIG, "hermes")


def chatted(*messages: dict[str, Any], **fields: Any) -> Ask:
    body = json.dumps({"model": "tiny", "messages": messages} | fields).encode()
    return chat_ask(decode_body(body, ChatBody), 260, CONFIG, "hermes")


def refused(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        asked(**fields)
    return caught.value


def test_items_are_the_chat_that_says_the_same() -> None:
    calls = [{"id": str(k), "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}} for k in (1, 2)]
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "be "}, {"type": "text", "text": "brief"}]},
        {"type": "message", "role": "user", "content": "do it", "id": None, "status": "completed"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}],
         "type": "message", "id": "msg_1", "status": "completed"},
        CALL | {"arguments": '{"a": 1}', "id": "fc_1", "status": "completed"},
        CALL | {"arguments": '{"a": 1}', "call_id": "2"},
        RESULT,
        RESULT | {"call_id": "2", "output": [{"type": "text", "text": "do"}, {"type": "text", "text": "ne"}]},
        CALL | {"call_id": "3"},
    ]  # fmt: skip
    messages = [
        {"role": "system", "content": "above all"},
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "yes", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
        {"role": "tool", "tool_call_id": "2", "content": "done"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "3", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    ]
    mine = asked(instructions="above all", input=items, tools=[TOOL])
    chat = chatted(*messages, tools=[CHAT_TOOL])
    assert mine.prompts == chat.prompts
    assert mine.tools == chat.tools
    assert mine.blame == ("input", "max_output_tokens")


def test_formats_and_choices_are_those_of_a_chat() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    flat = asked(text={"format": {"type": "json_schema", "name": "it", "schema": schema, "strict": True}})
    chat = chatted(USER, response_format={"type": "json_schema", "json_schema": {"name": "it", "schema": schema}})
    assert flat.sampling == chat.sampling
    assert (flat.grammar_param, chat.grammar_param) == ("text.format", "response_format")
    some = asked(text={"format": {"type": "json_object"}}).sampling.grammar
    assert some == chatted(USER, response_format={"type": "json_object"}).sampling.grammar != ""
    assert asked(text={"format": {"type": "text"}}).sampling.grammar == ""
    for choice in ("required", "f"):
        named = {"type": "function", "name": "f"} if choice == "f" else choice
        as_chat = {"type": "function", "function": {"name": "f"}} if choice == "f" else choice
        ask, chat = asked(tools=[TOOL], tool_choice=named), chatted(USER, tools=[CHAT_TOOL], tool_choice=as_chat)
        assert ask.sampling == chat.sampling
        assert (ask.sampling.grammar != "", ask.grammar_param) == (True, chat.grammar_param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"include": ["reasoning.encrypted_content"]}, "include[0]"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"stream_options": {}}, "stream_options"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tool_choice.type"),
        ({"stop": "x"}, "stop"),
        ({"n": 2}, "n"),
        ({"metadata": {str(k): "" for k in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: ""}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"prompt_cache_key": "x" * 257}, "prompt_cache_key"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 21}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"tools": [TOOL | {"name": "a b"}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"tools": [TOOL | {"parameters": {"type": "string"}}]}, "tools[0].parameters"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice.name"),
        ({"input": []}, "input"),
        ({"input": [USER] * 9}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [USER, {"type": "reasoning", "id": "rs_1", "summary": []}]}, "input[1].type"),
        ({"input": [USER, {"role": "user"}]}, "input[1].content"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [USER | {"name": "me"}]}, "input[0].name"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}] * 4}]}, "input[0].content"),
        ({"input": [CALL, RESULT | {"output": [{"type": "input_text", "text": ""}] * 4}]}, "input[1].output"),
        ({"input": [USER, RESULT]}, "input[1].call_id"),
        ({"input": [USER, CALL, RESULT | {"call_id": "2"}], "instructions": "be brief"}, "input[2].call_id"),
        ({"input": [USER, CALL, CALL]}, "input[2].call_id"),
        ({"input": [{"role": "assistant", "content": "x"}, CALL | {"call_id": ""}]}, "input[1].call_id"),
        ({"input": [CALL | {"arguments": "[]"}]}, "input[0].arguments"),
        ({"input": [CALL | {"name": ""}]}, "input[0].name"),
    ],
)  # fmt: skip
def test_what_is_not_taken_is_refused_under_its_name(fields: dict[str, Any], param: str) -> None:
    error = refused(**fields)
    assert (error.status, error.param) == (400, param)
    assert "messages" not in error.message
    assert ".function" not in error.message


async def test_what_only_the_prompt_or_the_grammar_shows_is_blamed_on_this_endpoints_fields(rig: Rig) -> None:
    async def blamed(**fields: Any) -> tuple[int, str, str]:
        status, answer = await rig.post("/v1/responses", {"model": "tiny", "input": "x"} | fields)
        return status, answer["error"]["param"], answer["error"]["code"]

    assert await blamed(input="x" * 5000) == (400, "input", "context_length_exceeded")
    assert await blamed(max_output_tokens=4090) == (400, "max_output_tokens", "context_length_exceeded")
    bad = {"type": "json_schema", "name": "it", "schema": {"type": "no such type"}}
    assert await blamed(text={"format": bad}) == (422, "text.format", "invalid_grammar")
    assert await blamed(model="other") == (404, "model", "model_not_found")
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    assert (await blamed(input=[{"role": "user", "content": deep}]))[:2] == (400, "input[0].content")


def test_a_body_that_nests_without_end_is_refused() -> None:
    for field in (
        b'"input": [',
        b'"metadata": ',
        b'"text": {"format": {"type": "json_schema", "name": "x", "schema": {"a": ',
    ):
        with pytest.raises(ApiError) as caught:
            decode_body(b'{"model": "tiny", ' + field + b"[" * 100_000, ResponsesBody)
        assert caught.value.status == 400


ITEMS = st.lists(st.dictionaries(st.sampled_from(ITEM_FIELDS), JSON, max_size=6) | JSON, max_size=3)
PLAUSIBLE = st.lists(st.sampled_from([USER, CALL, RESULT, USER | {"role": "assistant"}]), min_size=1, max_size=6)
WITHIN = st.sampled_from(["include", "message.output_text.logprobs", "type", "function", "name", "schema", "format"])


def found_for(fields: dict[str, Any]) -> Ask | ApiError:
    try:
        return asked(**fields)
    except ApiError as error:
        return error


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.dictionaries(WITHIN, JSON | WITHIN, max_size=3), max_size=4),
    st.none() | ITEMS | PLAUSIBLE,
)
def test_any_json_in_any_field_is_an_ask_or_an_error_with_a_valid_body(
    fields: dict[str, Any], items: list[Any] | None
) -> None:
    found = found_for(fields if items is None else {"input": items} | fields)
    if isinstance(found, ApiError):
        assert found.status == (422 if found.code == "invalid_grammar" else 400)
        assert msgspec.json.decode(found.body())["error"]["message"]
        return
    assert found.num_choices == len(found.prompts) == 1
    assert 0 <= found.sampling.temperature <= 2
    assert 0 < found.sampling.top_p <= 1
    assert -1 <= found.sampling.num_logprobs <= CONFIG.max_logprobs
    assert 0 < found.timeout_s <= CONFIG.max_timeout_s
