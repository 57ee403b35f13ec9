"""API-01, -02, -04, -05 on every endpoint that takes a body, at every place of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import msgspec.inspect as mi
import pytest

from baton.services.router.api.bodies import JsonObjectFormat, TextFormat
from baton.services.router.api.responses_input import read_item
from baton.services.router.text.model_folder import RouterModel
from tests.conformance.surface import BODIES, BODY_TYPES, PLAIN, RICH, USER, encoded, parts, structs, texts
from tests.services.router.rig import LIMITS, Rig, open_rig

GENERATING = [path for path in PLAIN if path.startswith("/v1/")]
MARK = "@mark@"


async def check_refused(rig: Rig, path: str, body: Any, statuses: tuple[int, ...] = (400,)) -> dict[str, Any]:
    """The error, in OpenAI's shape, of a request that never reaches the machine."""
    status, answer = await rig.post(path, body)
    assert status in statuses, (path, body, answer)
    assert {"message", "type", "param", "code"} <= set(answer["error"])
    assert rig.machine.events == []
    return answer["error"]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/completions", {"prompt": ["x", ""]}, "prompt[1]"),
        ("/v1/completions", {"prompt": [[1], []]}, "prompt[1]"),
        ("/v1/completions", {"prompt": ["x", "y"], "max_tokens": 0}, "max_tokens"),
        ("/v1/completions", {"n": 0}, "n"),
        ("/v1/completions", {"guided_choice": []}, "guided_choice"),
        ("/v1/completions", {"prompt": "", "echo": True, "max_tokens": 0, "logprobs": 1}, "prompt"),
        ("/v1/chat/completions", {"max_tokens": 0}, "max_tokens"),
        ("/v1/chat/completions", {"max_tokens": None, "max_completion_tokens": 0}, "max_completion_tokens"),
        ("/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": []}]}, "messages[0].content"),
        ("/v1/responses", {"input": []}, "input"),
        ("/v1/responses", {"max_output_tokens": 0}, "max_output_tokens"),
        ("/tokenize", {"prompt": None}, "prompt"),
        ("/tokenize", {"prompt": None, "messages": []}, "messages"),
        ("/detokenize", {"tokens": None}, "tokens"),
    ],
)
async def test_api_01_work_of_no_length_is_refused_on_every_endpoint(
    rig: Rig, path: str, fields: dict[str, Any], param: str
) -> None:
    assert (await check_refused(rig, path, PLAIN[path] | fields, (400, 422)))["param"] == param
    await rig.check_alive()


async def test_api_01_texts_and_token_lists_of_no_length_are_the_empty_answer(rig: Rig) -> None:
    assert (await rig.post("/tokenize", {"prompt": ""}))[1] | {"max_model_len": 0} == {
        "count": 0,
        "max_model_len": 0,
        "tokens": [],
    }
    assert (await rig.post("/detokenize", {"tokens": []})) == (200, {"prompt": ""})


TOKEN_FIELDS = {
    ("CompletionBody", "prompt"),
    ("CompletionBody", "stop_token_ids"),
    ("CompletionBody", "logit_bias"),
    ("ChatBody", "stop_token_ids"),
    ("ChatBody", "logit_bias"),
    ("DetokenizeBody", "tokens"),
}


def holds_ids(kind: mi.Type, is_inside: bool = False) -> bool:
    """Whether whole numbers are in a list, or name an object's members."""
    is_list = isinstance(kind, mi.ListType | mi.DictType)
    inner = [kind.key_type] if isinstance(kind, mi.DictType) else parts(kind)
    return (is_inside and isinstance(kind, mi.IntType)) or (
        not isinstance(kind, mi.StructType) and any(holds_ids(one, is_inside or is_list) for one in inner)
    )


def test_api_02_these_are_all_fields_that_carry_token_ids() -> None:
    found = {
        (struct.cls.__name__, field.name)
        for struct in structs(mi.UnionType(tuple(map(mi.type_info, BODY_TYPES))), set())
        for field in struct.fields
        if holds_ids(field.type)
    }
    assert found == TOKEN_FIELDS


OUTSIDE = [260, 2**31, 2**63, 2**64, 10**30, -1, -(2**63), -(10**30), 1.5, True, "97", None]
IN_FIELDS: list[tuple[str, str, Any]] = [
    ("/v1/completions", "prompt", lambda token: [1, token]),
    ("/v1/completions", "prompt", lambda token: [[1], [1, token]]),
    ("/v1/completions", "prompt", lambda token: [[token]]),
    *[(path, "stop_token_ids", lambda token: [1, token]) for path in GENERATING[:2]],
    *[(path, "logit_bias", lambda token: {"1": 0, str(token): 1}) for path in GENERATING[:2]],
    ("/detokenize", "tokens", lambda token: [1, token]),
]


async def test_api_02_no_field_takes_an_id_outside_the_vocabulary_and_another_request_goes_on(rig: Rig) -> None:
    rig.machine.is_held = True
    other = asyncio.create_task(rig.complete(prompt="other", max_tokens=10))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    for path, field, value_of in IN_FIELDS:
        for token in OUTSIDE:
            if field == "logit_bias" and token == "97":
                continue  # members have no other way to be named
            more = {} if path == "/detokenize" else {"min_tokens": 1}
            status, answer = await rig.post(path, PLAIN[path] | more | {field: value_of(token)})
            assert status == 400, (path, field, token, answer)
            assert answer["error"]["param"].startswith(field)
    assert len(rig.machine.events) == 1
    rig.machine.go_on(1)
    status, answer = await other
    assert (status, answer["choices"][0]["text"]) == (200, "otherother")
    rig.machine.is_held = False


NO_OBJECTS = [b'{"prompt":', b"[]", b"null", b"123", b"", b'"x"', b"\xff\xfe", b'{"model":NaN}', b"[" * 99_999]
NO_OBJECTS += [b'{"a":' * 9999, b'{"model":"tiny"}x', b"\xef\xbb\xbf{}", b"{'a':1}", b'{"a":1,}', b"\x00"]


@pytest.mark.parametrize("path", PLAIN)
async def test_api_04_no_endpoint_takes_what_is_no_json_object(rig: Rig, path: str) -> None:
    for body in NO_OBJECTS:
        await check_refused(rig, path, body)
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-16"},
                    {"Content-Type": "application/json", "Content-Encoding": "br"}):  # fmt: skip
        status, answer = await rig.post(path, b"{}", headers=headers)
        assert (status, answer["error"]["code"]) == (415, "unsupported_media_type")
    await rig.check_alive()


@pytest.mark.parametrize("path", PLAIN)
async def test_api_04_no_text_anywhere_may_hold_half_of_a_character(rig: Rig, path: str) -> None:
    places = list(texts(RICH[path]))
    assert places
    for place in places:
        marked = place.changed(RICH[path], MARK)
        for broken in (b"a\\ud83d", b"\\ude00b", b"\\ud83d\\ud83d", b"\xff", b"\xed\xa0\xbd"):
            await check_refused(rig, path, encoded(marked, MARK, broken))
    named = json.dumps(RICH[path]).encode()
    for member in set(named.split(b'"')):
        if b'"' + member + b'": ' in named:
            body = named.replace(b'"' + member + b'": ', b'"\\ud83d": ', 1)
            await check_refused(rig, path, body)
    await rig.check_alive()


SURROGATE = '"\\ud83d"'
NO_SCHEMAS = [f'{{"const": {SURROGATE}}}', f"{{{SURROGATE}: 1}}", "[" * 99_999, '{"a":' * 9999, "[]", "", "NaN"]
NO_SCHEMAS += ['{"const": NaN}', '{"a": 1e999}', '{"maxLength": ' + "9" * 9999 + "}", "{} {}"]
NO_ARGUMENTS = [*NO_SCHEMAS[:5], "NaN", "{} 1"]


def calling(arguments: str) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [{"role": "assistant", "tool_calls": [call]}]}


def called(arguments: str) -> dict[str, Any]:
    return {"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments}]}


JSON_IN_TEXT: list[tuple[str, dict[str, Any]]] = [
    *[(path, {"guided_json": text}) for path in GENERATING[:2] for text in NO_SCHEMAS],
    *[("/v1/chat/completions", calling(text)) for text in NO_ARGUMENTS],
    *[("/v1/responses", called(text)) for text in NO_ARGUMENTS],
    *[("/tokenize", {"prompt": None} | calling(text)) for text in NO_ARGUMENTS],
]


async def test_api_04_json_within_a_text_is_read_as_strictly(rig: Rig) -> None:
    for path, fields in JSON_IN_TEXT:
        error = await check_refused(rig, path, PLAIN[path] | fields, (400, 422))
        assert error["param"].startswith(tuple(fields)), error
    await rig.check_alive()


async def test_api_05_each_of_several_prompts_has_the_limit(rig: Rig) -> None:
    limit = LIMITS.max_prompt_len
    assert (await rig.complete(prompt=["x" * limit, "y", "z" * limit]))[0] == 200
    for prompts in (["x", "x" * (limit + 1)], [[120] * (limit + 1), [1]]):
        status, answer = await rig.complete(prompt=prompts)
        assert status == 400
        assert answer["error"]["message"] == f"the prompt has {limit + 1} tokens, the limit is {limit}"
    room = LIMITS.max_model_len - 2000
    rig.machine.chunk = 5000
    assert (await rig.complete(prompt=["x", "x" * 2000], max_tokens=room))[0] == 200
    status, answer = await rig.complete(prompt=["x", "x" * 2000], max_tokens=room + 1)
    assert (status, answer["error"]["param"]) == (400, "max_tokens")
    assert str(room + 1) in answer["error"]["message"]


@pytest.mark.parametrize("path", GENERATING)
async def test_api_05_every_endpoint_has_the_limits_and_names_its_own_fields(rig: Rig, path: str) -> None:
    text, length = {
        "/v1/completions": ("prompt", "max_tokens"),
        "/v1/chat/completions": ("messages", "max_completion_tokens"),
        "/v1/responses": ("input", "max_output_tokens"),
    }[path]
    around = 0 if text == "prompt" else (await rig.post("/tokenize", {"messages": [USER]}))[1]["count"] - 1

    def body(num_chars: int, max_tokens: int) -> dict[str, Any]:
        said = "x" * num_chars
        asked = [{"role": "user", "content": said}] if text == "messages" else said
        return {"model": "tiny", text: asked, length: max_tokens}

    rig.machine.chunk = 5000
    longest = LIMITS.max_prompt_len - around
    for num_chars, max_tokens, blamed in (
        (longest - 1, 1, None),
        (longest, LIMITS.max_model_len - LIMITS.max_prompt_len, None),
        (longest + 1, 1, text),
        (longest, LIMITS.max_model_len - LIMITS.max_prompt_len + 1, length),
    ):
        status, answer = await rig.post(path, body(num_chars, max_tokens))
        if blamed is None:
            assert status == 200, answer
        else:
            error = answer["error"]
            assert (status, error["param"], error["code"]) == (400, blamed, "context_length_exceeded")
    await rig.check_alive()


async def test_api_05_and_sec_08_scores_of_all_answers_together_are_bounded(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_scores=60) as rig:
        for fields, most in (
            ({"prompt_logprobs": 0}, 60),
            ({"prompt_logprobs": 3}, 20),
            ({"prompt_logprobs": 3, "n": 2}, 10),
            ({"echo": True, "logprobs": 2, "n": 3}, 10),
        ):
            assert (await rig.complete(prompt=["x" * (most - 3), "xxx"], **fields))[0] == 200
            status, answer = await rig.complete(prompt=["x" * (most - 3), "xxxx"], **fields)
            assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "prompt", "too_many")


def held(value: Any) -> set[type]:
    """The struct types of everything within a decoded body."""
    found: set[type] = set()
    if isinstance(value, msgspec.Struct):
        found = {type(value)}.union(*(held(getattr(value, name)) for name in value.__struct_fields__))
    elif isinstance(value, list):
        found = found.union(*map(held, value))
    return found


def test_the_bodies_hold_every_kind_of_object() -> None:
    """So that what is tried at each of their places is tried everywhere."""
    bodies = [msgspec.json.decode(json.dumps(RICH[path]), type=body_type) for path, body_type in BODIES.items()]
    items = [read_item("input", msgspec.Raw(msgspec.json.encode(item))) for item in RICH["/v1/responses"]["input"]]
    all_types = {struct.cls for struct in structs(mi.UnionType(tuple(map(mi.type_info, BODY_TYPES))), set())}
    assert all_types - held([*bodies, *items]) == {TextFormat, JsonObjectFormat}  # which have no members
