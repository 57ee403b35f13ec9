"""Any JSON in any field is either an ask within its ranges or an error for the client, never another exception."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.api.ask import Ask
from baton.services.router.api.bodies import ChatBody, CompletionBody
from baton.services.router.api.chat_ask import chat_ask
from baton.services.router.api.completion_ask import completion_ask
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, invalid
from baton.services.router.http.body import decode_body
from baton.services.router.tools.errors import ToolsRefused
from tests.support.machines import packed

CONFIG = HttpConfig(served_names=("tiny",))
NUMBERS = st.one_of(st.integers(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False), st.integers(-3, 300))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8))
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
FIELDS = sorted({*CompletionBody.__struct_fields__, *ChatBody.__struct_fields__, "kv_transfer_params"})


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "7"}


def ask_of(endpoint: str, fields: dict[str, Any]) -> Ask | ApiError:
    prompt: dict[str, Any] = (
        {"prompt": "x"} if endpoint == "completion" else {"messages": [{"role": "user", "content": "x"}]}
    )
    body = json.dumps({"model": "tiny"} | prompt | fields).encode()
    try:
        if endpoint == "completion":
            return completion_ask(decode_body(body, CompletionBody), 260, CONFIG)
        return chat_ask(decode_body(body, ChatBody), 260, CONFIG, "hermes")
    except ToolsRefused as refused:
        return invalid(str(refused), refused.param, refused.code)
    except ApiError as error:
        return error


@given(st.sampled_from(["completion", "chat"]), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_json_in_any_field_is_an_ask_or_a_400_with_a_valid_body(endpoint: str, fields: dict[str, Any]) -> None:
    found = ask_of(endpoint, fields)
    if isinstance(found, ApiError):
        assert found.status == (422 if found.code == "invalid_grammar" else 400)
        assert msgspec.json.decode(found.body())["error"]["message"]
        return
    params = found.sampling
    assert found.max_tokens is None or params.min_tokens <= found.max_tokens
    assert 1 <= found.num_choices * len(found.prompts) <= CONFIG.max_total_choices
    assert 0 <= params.temperature <= 2
    assert 0 < params.top_p <= 1
    assert 0 <= params.top_k < 260
    assert all(0 <= token < 260 for token in (*params.stop_token_ids, *dict(params.logit_bias)))
    assert -1 <= params.num_logprobs <= CONFIG.max_logprobs
    assert -1 <= params.num_prompt_logprobs <= CONFIG.max_logprobs
    assert 0 < found.timeout_s <= CONFIG.max_timeout_s


def body_of(data: bytes, body_type: type[CompletionBody | ChatBody]) -> CompletionBody | ChatBody | ApiError:
    try:
        return decode_body(data, body_type)
    except ApiError as error:
        return error


@given(st.binary(max_size=60))
def test_any_bytes_are_a_body_or_an_error_for_the_client(data: bytes) -> None:
    for body_type in (CompletionBody, ChatBody):
        found = body_of(data, body_type)
        if isinstance(found, ApiError):
            assert found.status == 400
            assert msgspec.json.decode(found.body())["error"]["message"]
        else:
            assert isinstance(found, body_type)


def test_a_temperature_too_small_to_divide_by_is_greedy() -> None:
    asks = [ask_of("completion", {"temperature": value}) for value in (0, 1e-300, 0.0009, 0.001)]
    assert [ask.sampling.temperature for ask in asks] == [0, 0, 0, 0.001]


def test_a_max_tokens_out_of_range_is_told_both_bounds() -> None:
    for value, also in ((0, ", or with echo from 0"), (1 << 31, "")):
        error = ask_of("completion", {"max_tokens": value})
        assert isinstance(error, ApiError)
        assert error.message == f"max_tokens is {value}, must be from 1 to 2147483647{also}"
        assert (error.param, error.code) == ("max_tokens", "out_of_range")
    error = ask_of("chat", {"max_completion_tokens": 1 << 31})
    assert isinstance(error, ApiError)
    assert error.message == f"max_completion_tokens is {1 << 31}, must be from 1 to 2147483647"


@pytest.mark.parametrize("kind", ["completion", "chat"])
@pytest.mark.parametrize(
    ("field", "value", "limit"),
    [
        ("top_p", 0, "must be greater than 0 and at most 1"),
        ("top_p", -0.5, "must be greater than 0 and at most 1"),
        ("top_p", 1.5, "must be greater than 0 and at most 1"),
        ("timeout", 0, "must be greater than 0 and at most 3600"),
        ("timeout", 3601, "must be greater than 0 and at most 3600"),
        ("min_p", 2, "must be from 0 to 1"),
        ("min_tokens", 9, "must be at most max_tokens, which is 4"),
    ],
)
def test_a_number_out_of_range_is_told_the_whole_range(kind: str, field: str, value: float, limit: str) -> None:
    error = ask_of(kind, {"max_tokens": 4, field: value})
    assert isinstance(error, ApiError)
    shown = float(value) if field != "min_tokens" else value
    assert (error.param, error.code, error.message) == (field, "out_of_range", f"{field} is {shown}, {limit}")


def test_a_prompt_that_mixes_token_ids_and_text_is_told_where() -> None:
    for prompt, index in (([1, "a"], 1), (["a", 1], 1), ([1, 2, [3]], 2)):
        error = ask_of("completion", {"prompt": prompt})
        assert isinstance(error, ApiError)
        assert (error.param, error.code) == (f"prompt[{index}]", "invalid_type")


def test_prompts_of_one_kind_are_told_apart() -> None:
    prompts = {
        "a": ("a",), ("a", "b"): ("a", "b"), (1, 2): (packed([1, 2]),), ((1,), (2, 3)): (packed([1]), packed([2, 3]))
    }  # fmt: skip
    for prompt, expected in prompts.items():
        ask = ask_of("completion", {"prompt": prompt})
        assert isinstance(ask, Ask)
        assert ask.prompts == expected
    for prompt, param in (([], "prompt"), ([[]], "prompt"), (["a", ""], "prompt[1]"), ([[1], []], "prompt[1]")):
        error = ask_of("completion", {"prompt": prompt})
        assert isinstance(error, ApiError)
        assert (error.param, error.code) == (param, "empty")


@pytest.mark.parametrize(
    ("turns", "param"),
    [
        ([{"role": "assistant", "tool_calls": [CALL]}, RESULT], "messages[1].tool_calls"),
        ([{"role": "assistant", "content": "x"}, RESULT], "messages[2].role"),
    ],
)
def test_calls_and_results_that_no_template_would_show_are_refused(turns: list[dict[str, Any]], param: str) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}, *turns]}
    with pytest.raises(ApiError) as refused:
        chat_ask(decode_body(json.dumps(body).encode(), ChatBody), 260, CONFIG, None)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert refused.value.code == "unsupported_parameter"
