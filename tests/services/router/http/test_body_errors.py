"""What a client is told of a body of the wrong type: the field, in JSON's words, and what it may be."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.api.bodies import ChatBody
from baton.services.router.errors import ApiError
from baton.services.router.http.body import decode_body


class Text(msgspec.Struct, tag="text", forbid_unknown_fields=True):
    text: str


class Picture(msgspec.Struct, tag="picture", forbid_unknown_fields=True):
    detail: Literal["low", "high"]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "tool"]
    parts: str | list[Text | Picture] | None = None
    bias: dict[str, int] = {}
    limits: dict[int, int] = {}
    mode: Literal["auto", "none"] | Text | None = None


def error_of(body: bytes, body_type: Any = Body) -> ApiError:
    with pytest.raises(ApiError) as raised:
        decode_body(body, body_type)
    return raised.value


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ('"role":"x"', "role", "role: 'x' is not allowed; it may be 'tool', 'user'"),
        ('"role":3', "role", "role: expected string, got integer"),
        ('"role":"user","mode":"x"', "mode", "mode: 'x' is not allowed; it may be 'auto', 'none'"),
        ('"role":"user","mode":3', "mode", "mode: expected string or object or null, got integer"),
        ('"role":"user","parts":[{"type":"x"}]', "parts[0].type", "parts[0].type: 'x' is not allowed; it may be "),
        ('"role":"user","parts":[{"type":"picture","detail":"x"}]', "parts[0].detail", "it may be 'high', 'low'"),
        ('"role":"user","parts":[{"type":"text","text":1.5}]', "parts[0].text", "expected string, got number"),
        ('"role":"user","parts":[{"text":"x"}]', "parts[0].type", "parts[0].type is missing"),
        ('"role":"user","parts":true', "parts", "parts: expected string or array or null, got boolean"),
        ('"role":"user","bias":{"1":"x"}', "bias", "bias: expected integer, got string"),
        ('"role":"user","other":1', "other", "other is not supported"),
        ('"role":"user","limits":{"x":1}', "limits", "limits: expected integer, got string"),
        ("", "role", "role is missing"),
        ('"role":"x` - at `$.mode`"', "role", "it may be 'tool', 'user'"),
        ('"role":"Object missing required field `mode`"', "role", "it may be 'tool', 'user'"),
    ],
)
def test_an_error_names_the_field_and_what_it_may_be(fields: str, param: str, message: str) -> None:
    error = error_of(b"{" + fields.encode() + b"}")
    assert (error.status, error.param) == (400, param)
    assert message in error.message
    assert "`$" not in error.message or "$" in fields


def test_what_is_no_object_is_said_of_the_body() -> None:
    assert (error_of(b"[]").param, error_of(b"[]").message) == (None, "the body: expected object, got array")


def test_a_long_value_is_cut() -> None:
    assert len(error_of(b'{"role":"' + b"x" * 100_000 + b'"}').message) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab$`.[]"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "name", "x`y"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=st.fixed_dictionaries({"model": JSON, "messages": JSON}, optional={"stop": JSON, "tool_choice": JSON}))
def test_whatever_a_client_sends_the_answer_has_no_word_of_the_validator(value: dict[str, Any]) -> None:
    try:
        decode_body(msgspec.json.encode(value), ChatBody)
    except ApiError as raised:
        error = raised
    else:
        return
    assert error.param is None or not error.param.startswith("$")
    assert not error.message.startswith(("Expected", "Invalid", "Object"))
    assert " - at `$" not in error.message
