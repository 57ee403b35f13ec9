"""Bodies that are no valid request: a 4xx in OpenAI's shape that names the field, and the router goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.services.router.rig import Rig

ENDPOINTS = ["/v1/completions", "/v1/chat/completions"]
MESSAGES = [{"role": "user", "content": "hi"}]


async def refused(rig: Rig, path: str, body: Any, status: int = 400, **options: Any) -> dict[str, Any]:
    """The error of a request that never reaches the machine."""
    got, answer = await rig.post(path, body, **options)
    assert got == status, answer
    assert set(answer) == {"error"}
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert rig.machine.events == []
    return answer["error"]


@pytest.mark.parametrize(
    "fields",
    [{"prompt": ""}, {"prompt": [""]}, {"prompt": []}, {"prompt": [[]]}, {"max_tokens": 0}],
)
async def test_api_01_work_of_no_length_is_refused(rig: Rig, fields: dict[str, Any]) -> None:
    error = await refused(rig, "/v1/completions", {"model": "tiny", "prompt": "x"} | fields)
    assert error["param"] in fields
    await rig.check_alive()


async def test_api_01_a_chat_without_messages_is_refused(rig: Rig) -> None:
    assert (await refused(rig, "/v1/chat/completions", {"model": "tiny", "messages": []}))["param"] == "messages"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 999999999]}, "prompt"),
        ({"prompt": [[1, 260]]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"logit_bias": {"999999": 5}}, "logit_bias"),
        ({"logit_bias": {"-1": 5}}, "logit_bias"),
        ({"stop_token_ids": [999999], "min_tokens": 1}, "stop_token_ids"),
    ],
)
async def test_api_02_token_ids_outside_the_vocabulary_are_refused(
    rig: Rig, fields: dict[str, Any], param: str
) -> None:
    error = await refused(rig, "/v1/completions", {"model": "tiny", "prompt": "x"} | fields)
    assert error["param"] == param
    await rig.check_alive()


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt":',
        b"[]",
        b"null",
        b"123",
        b"",
        b'"x"',
        b"\xff\xfe",
        b'{"model":NaN}',
        b"[" * 100_000,
        b'{"a":' * 9999,
    ],
)
async def test_api_04_what_is_no_json_object_is_refused(rig: Rig, path: str, body: bytes) -> None:
    await refused(rig, path, body)
    await rig.check_alive()


LONE = b"\\ud83d"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"tiny","prompt":"a' + LONE + b'"}',
        b'{"model":"tiny","prompt":"a","stop":"' + LONE + b'"}',
        b'{"model":"tiny","prompt":"a","stop":["' + LONE + b'x"]}',
        b'{"model":"' + LONE + b'","prompt":"a"}',
        b'{"model":"tiny","prompt":"a\xff"}',
        b'{"model":"tiny","prompt":"a","' + LONE + b'":1}',
    ],
)
async def test_api_04_unpaired_surrogates_and_broken_utf8_are_refused(rig: Rig, body: bytes) -> None:
    await refused(rig, "/v1/completions", body)
    chat = body.replace(b'"prompt":"a', b'"messages":[{"role":"user","content":"a').replace(b'a"', b'a"}]', 1)
    await refused(rig, "/v1/chat/completions", chat)
    await rig.check_alive()


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Type": "application/json; charset=utf-16"},
     {"Content-Type": "application/json", "Content-Encoding": "gzip"}],
)  # fmt: skip
async def test_api_04_another_media_type_is_a_415(rig: Rig, path: str, headers: dict[str, str]) -> None:
    await refused(rig, path, b"{}", 415, headers=headers)


async def test_api_04_a_missing_content_type_is_a_415(rig: Rig) -> None:
    body = json.dumps({"model": "tiny", "prompt": "a"}).encode()
    async with rig.http.post(rig.url + "/v1/completions", data=body, skip_auto_headers=["Content-Type"]) as response:
        assert response.status == 415
        assert (await response.json())["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"frequency_penalty": -3}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 1 << 64}, "seed"),
        ({"seed": "7"}, "seed"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": 5}, "stop"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"n": 0}, "n"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"other": True}}, "stream_options.other"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 1e9}, "timeout"),
        ({"priority": -1}, "priority"),
        ({"model": None}, "model"),
    ],
)
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_wrong_types_and_ranges_are_refused_by_name(
    rig: Rig, path: str, fields: dict[str, Any], param: str
) -> None:
    asked = {"prompt": "x"} if path == "/v1/completions" else {"messages": MESSAGES}
    assert (await refused(rig, path, {"model": "tiny"} | asked | fields))["param"] == param


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/completions", {"logprobs": 21}, "logprobs"),
        ("/v1/completions", {"logprobs": True}, "logprobs"),
        ("/v1/completions", {"best_of": 3}, "best_of"),
        ("/v1/completions", {"suffix": "end"}, "suffix"),
        ("/v1/completions", {"prompt": ["a"] * 65}, "prompt"),
        ("/v1/completions", {"prompt": ["a"] * 64, "n": 3}, "n"),
        ("/v1/completions", {"prompt_logprobs": 21}, "prompt_logprobs"),
        ("/v1/completions", {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ("/v1/completions", {"prompt": [1, "a"]}, "prompt"),
        ("/v1/completions", {"prompt": None}, "prompt"),
        ("/v1/completions", {"messages": []}, "messages"),
        ("/v1/chat/completions", {"logprobs": 3}, "logprobs"),
        ("/v1/chat/completions", {"top_logprobs": 3}, "top_logprobs"),
        ("/v1/chat/completions", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ("/v1/chat/completions", {"functions": []}, "functions"),
        ("/v1/chat/completions", {"response_format": {"type": "xml"}}, "response_format.type"),
        ("/v1/chat/completions", {"response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos"),
        ("/v1/chat/completions", {"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ("/v1/chat/completions", {"tool_choice": "required"}, "tool_choice"),
        ("/v1/chat/completions", {"store": True}, "store"),
        ("/v1/chat/completions", {"n": 17}, "n"),
        ("/v1/chat/completions", {"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
        ("/v1/chat/completions", {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ("/v1/chat/completions", {"messages": [{"role": "critic", "content": "x"}]}, "messages[0].role"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "messages[0].content[0].image_url",
        ),
    ],
)
async def test_what_is_not_supported_is_refused_by_name(
    rig: Rig, path: str, fields: dict[str, Any], param: str
) -> None:
    asked = {"prompt": "x"} if path == "/v1/completions" else {"messages": MESSAGES}
    body = {"model": "tiny", "max_tokens": 5} | asked | fields
    error = await refused(rig, path, body)
    assert error["param"].startswith(param.rsplit(".", 1)[0] if "image" in param else param)


async def test_null_means_the_default_and_neutral_values_are_taken(rig: Rig) -> None:
    fields = dict.fromkeys(["temperature", "top_p", "seed", "stop", "n", "logprobs", "stream", "stream_options",
                            "user", "logit_bias", "echo", "suffix", "best_of", "cache_salt", "timeout"])  # fmt: skip
    assert (await rig.complete(**fields))[0] == 200
    assert (await rig.complete(echo=False, suffix="", best_of=1, n=1, logit_bias={}))[0] == 200
    assert (await rig.chat(response_format={"type": "text"}, logprobs=False))[0] == 200


async def test_an_error_quotes_little_of_what_was_sent(rig: Rig) -> None:
    huge = "x" * 1_000_000
    for fields in ({huge: 1}, {"user": huge}, {"stop": huge}, {"cache_salt": huge}):
        error = await refused(rig, "/v1/completions", {"model": "tiny", "prompt": "x"} | fields)
        assert len(str(error)) < 2000
    status, answer = await rig.complete(model=huge)
    assert status == 404
    assert len(str(answer)) < 2000
