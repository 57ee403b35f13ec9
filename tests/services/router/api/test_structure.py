"""Structured output: what a request asks for becomes a grammar that executors can use, or a refusal by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from baton.core.router.events import Arrive
from baton.services.grammar import sources
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import LIMITS, Rig, open_rig

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
NAMED = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True}}
DANGLING = {"type": "json_schema", "json_schema": {"name": "thing", "schema": {"$ref": "#/$defs/no"}}}


def grammar(rig: Rig) -> str:
    arrives = [event for event in rig.machine.events if isinstance(event, Arrive)]
    return arrives[-1].sampling.grammar


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response_format": {"type": "text"}}, ""),
        ({"response_format": {"type": "json_object"}}, sources.json_object()),
        ({"response_format": NAMED}, sources.json_schema(SCHEMA)),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "any"}}}, sources.json_object()),
        ({"guided_json": SCHEMA}, sources.json_schema(SCHEMA)),
        ({"guided_json": msgspec.json.encode(SCHEMA).decode()}, sources.json_schema(SCHEMA)),
        ({"guided_regex": "[ab]+c"}, sources.regex("[ab]+c")),
        ({"guided_choice": ["yes", "no"]}, sources.choice(["yes", "no"])),
        ({"guided_grammar": 'start: "a" | "b"'}, sources.lark('start: "a" | "b"')),
    ],
)
async def test_each_field_becomes_its_grammar_on_both_endpoints(
    rig: Rig, fields: dict[str, Any], expected: str
) -> None:
    status, answer = await rig.complete(**fields)
    assert status == 200, answer
    assert grammar(rig) == expected
    status, answer = await rig.chat(**fields)
    assert status == 200, answer
    assert grammar(rig) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "a("}, "guided_regex"),
        ({"guided_json": {"type": "nothing"}}, "guided_json"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_grammar": "start: missing"}, "guided_grammar"),
        ({"guided_regex": "a" * 70_000}, "guided_regex"),
        ({"response_format": DANGLING}, "response_format"),
    ],
)
async def test_a_grammar_that_cannot_be_used_is_a_422_that_names_its_field(
    rig: Rig, fields: dict[str, Any], param: str
) -> None:
    status, answer = await rig.complete(**fields)
    error = answer["error"]
    assert (status, error["param"], error["code"]) == (422, param, "invalid_grammar"), answer
    assert rig.machine.events == []
    await rig.check_alive()


MAX_BYTES = 65536


def sized(field: str, num_bytes: int) -> Any:
    """A value of the field that takes so many bytes, and compiles."""
    if field == "guided_regex":
        return "a" * num_bytes
    if field == "guided_grammar":
        return 'start: "a"\n//' + "\"" * (num_bytes - 13)
    if field == "guided_choice":
        return ["é" * (num_bytes // 4), "b" * (num_bytes - 2 * (num_bytes // 4))]
    empty = {"type": "object", "description": ""}
    schema = {"type": "object", "description": "x" * (num_bytes - len(msgspec.json.encode(empty)))}
    if field == "guided_json":
        return schema
    if field == "a text":
        return msgspec.json.encode(schema).decode()
    return {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("guided_regex", "it has 65537 bytes"),
        ("guided_grammar", "it has 65537 bytes"),
        ("guided_choice", "it has 65537 bytes"),
        ("guided_json", "the schema has 65537 bytes as JSON"),
        ("a text", "the schema has 65537 bytes"),
        ("response_format", "the schema has 65537 bytes as JSON"),
    ],
)
async def test_the_size_that_counts_and_is_told_is_that_of_what_the_client_sent(
    rig: Rig, field: str, told: str
) -> None:
    param = "guided_json" if field == "a text" else field
    _, answer = await rig.complete(**{param: sized(field, MAX_BYTES)})
    assert "limit" not in str(answer.get("error"))
    status, answer = await rig.complete(**{param: sized(field, MAX_BYTES + 1)})
    assert (status, answer["error"]["param"]) == (422, param)
    assert answer["error"]["message"] == f"{param}: {told}, the limit is {MAX_BYTES}"


async def test_the_size_of_functions_that_must_be_called_is_that_of_their_parameters(rig: Rig) -> None:
    def tool(size: int) -> dict[str, Any]:
        parameters = {"type": "object", "description": "x" * (size - len('{"f":{"type":"object","description":""}}'))}
        return {"type": "function", "function": {"name": "f", "parameters": parameters}}

    rig.front.limits = msgspec.structs.replace(LIMITS, max_prompt_len=1 << 20, max_model_len=1 << 21)
    for more, expected in ((0, 200), (1, 422)):
        status, answer = await rig.chat(tools=[tool(MAX_BYTES + more)], tool_choice="required", max_tokens=5)
        assert status == expected, answer
    message = f"tools: what may be called has {MAX_BYTES + 1} bytes as JSON, the limit is {MAX_BYTES}"
    assert answer["error"]["message"] == message


async def test_what_would_keep_a_grammar_from_ending_is_refused(rig: Rig) -> None:
    for fields in ({"ignore_eos": True}, {"min_tokens": 3}):
        status, answer = await rig.complete(guided_regex="a", max_tokens=5, **fields)
        assert (status, answer["error"]["code"]) == (400, "conflict")
        assert answer["error"]["param"] in fields


async def test_the_checks_that_wait_are_bounded(model: RouterModel) -> None:
    async with open_rig(model, max_waiting_grammars=0) as rig:
        status, answer = await rig.complete(guided_regex="a")
        assert (status, answer["error"]["code"]) == (429, "queue_full")
        assert (await rig.complete())[0] == 200
