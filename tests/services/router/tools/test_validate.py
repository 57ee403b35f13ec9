"""What a request may say about tools."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.tools.errors import ToolsRefused
from baton.services.router.tools.types import FunctionCall, Tool, ToolCall, ToolChoice, ToolUse, Turn
from baton.services.router.tools.validate import ToolLimits, arguments_object, check_turns, is_deeper, tool_use
from tests.services.router.tools.outputs import values

LIMITS = ToolLimits(max_tools=4, max_tools_bytes=4096, max_calls=2)
NAMES = st.text("abzAZ09_-", min_size=1, max_size=64)


def tools_of(*functions: dict[str, Any]) -> list[Tool]:
    body = [{"type": "function", "function": function} for function in functions]
    return msgspec.json.decode(json.dumps(body), type=list[Tool])


def choice_of(value: Any) -> ToolChoice:
    return msgspec.json.decode(json.dumps(value), type=ToolChoice)


def refusal(tools: list[Tool] | None, choice: Any = None, parallel: bool | None = None) -> tuple[str, str]:
    """(param, code)"""
    with pytest.raises(ToolsRefused) as refused:
        tool_use(tools, choice, parallel, LIMITS)
    assert len(refused.value.message) < 300
    return refused.value.param, refused.value.code


@given(st.lists(NAMES, unique=True, min_size=1, max_size=4), st.data())
def test_choices(names: list[str], data: st.DataObject) -> None:
    tools = tools_of(*({"name": name} for name in names))
    auto = tool_use(tools, None, None, LIMITS)
    assert auto == ToolUse(tuple(tools), "auto", tuple(tools), True)
    assert tool_use(tools, "required", False, LIMITS) == auto._replace(choice="required", is_parallel=False)
    assert tool_use(tools, "none", True, LIMITS) == tool_use(None, None, None, LIMITS)
    chosen = data.draw(st.sampled_from(tools))
    named = choice_of({"type": "function", "function": {"name": chosen.function.name}})
    use = tool_use(tools, named, True, LIMITS)
    assert (use.choice, use.tools, use.callable_tools) == ("required", tuple(tools), (chosen,))
    assert not use.is_parallel


def test_without_tools_nothing_is_asked_for() -> None:
    assert tool_use([], "none", None, LIMITS).choice == "none"
    assert refusal([], "auto") == ("tool_choice", "conflict")
    assert refusal(None, "required") == ("tool_choice", "conflict")
    assert refusal(None, None, True) == ("parallel_tool_calls", "conflict")


@pytest.mark.parametrize("name", ["", "a b", "é", "a.b", "x" * 65, "a\n", "x" * 10_000])
def test_names(name: str) -> None:
    assert refusal(tools_of({"name": "a"}, {"name": name})) == ("tools[1].function.name", "invalid_name")


def test_what_tools_may_not_be() -> None:
    assert refusal(tools_of({"name": "a"}, {"name": "a"})) == ("tools[1].function.name", "duplicate_name")
    assert refusal(tools_of(*({"name": f"f{index}"} for index in range(5)))) == ("tools", "too_many")
    assert refusal(tools_of({"name": "a", "description": "x" * 5000})) == ("tools", "too_large")
    nested: dict[str, Any] = {}
    for _ in range(65):
        nested = {"properties": nested}
    assert refusal(tools_of({"name": "a", "parameters": nested})) == ("tools[0].function.parameters", "too_deep")
    other = tools_of({"name": "a", "parameters": {"type": "string"}})
    assert refusal(other) == ("tools[0].function.parameters", "invalid_schema")
    unknown = choice_of({"type": "function", "function": {"name": "b"}})
    assert refusal(tools_of({"name": "a"}), unknown) == ("tool_choice.function.name", "unknown_function")


@pytest.mark.parametrize(
    "body",
    [
        [{"type": "web_search"}],
        [{"type": "function", "function": {"name": "a", "parameters": []}}],
        [{"type": "function", "function": {"name": "a", "examples": 1}}],
        [{"type": "function"}],
    ],
)
def test_what_types_refuse(body: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(body), type=list[Tool])


def call_of(call_id: str, arguments: str = "{}", name: str = "f") -> ToolCall:
    return ToolCall(call_id, "function", FunctionCall(name, arguments))


USER = Turn("user", "hi")


def test_in_a_conversation_with_calls_every_result_answers_an_earlier_call() -> None:
    turns = [USER]
    for _ in range(2):  # some clients count their ids from 0 each time
        turns.append(Turn("assistant", None, (call_of("0"), call_of("1", ""))))
        turns += [Turn("tool", "x", tool_call_id="1"), Turn("tool", "y", tool_call_id="0")]
    check_turns(turns, LIMITS)
    with pytest.raises(ToolsRefused) as refused:
        check_turns([*turns, Turn("tool", "z", tool_call_id="2")], LIMITS)
    assert (refused.value.param, refused.value.code) == ("messages[7].tool_call_id", "unknown_call")


@pytest.mark.parametrize(
    ("turns", "param", "code"),
    [
        ([Turn("tool", "x", tool_call_id="1")], "messages[0].tool_call_id", "unknown_call"),
        ([Turn("tool", "x")], "messages[0].tool_call_id", "conflict"),
        ([USER._replace(tool_call_id="1")], "messages[0].tool_call_id", "conflict"),
        ([USER._replace(tool_calls=(call_of("1"),))], "messages[0].tool_calls", "conflict"),
        ([USER, Turn("assistant", None)], "messages[1].content", "empty"),
        ([Turn("assistant", "", (call_of(""),))], "messages[0].tool_calls[0].id", "empty"),
        ([Turn("assistant", "", (call_of("1"), call_of("1")))], "messages[0].tool_calls[1].id", "duplicate_id"),
        ([Turn("assistant", "", (call_of("1", name=""),))], "messages[0].tool_calls[0].function.name", "empty"),
        ([Turn("assistant", "", tuple(map(call_of, "123")))], "messages[0].tool_calls", "too_many"),
        (
            [Turn("assistant", "", (call_of("1"),)), Turn("tool", "", tool_call_id="2")],
            "messages[1].tool_call_id",
            "unknown_call",
        ),
    ],
)
def test_what_messages_may_not_be(turns: list[Turn], param: str, code: str) -> None:
    with pytest.raises(ToolsRefused) as refused:
        check_turns(turns, LIMITS)
    assert (refused.value.param, refused.value.code) == (param, code)


def test_who_answers_a_call_is_told_apart_from_who_does_not() -> None:
    with pytest.raises(ToolsRefused, match=r"^messages\[0\]\.tool_call_id is missing"):
        check_turns([Turn("tool", "x")], LIMITS)
    with pytest.raises(ToolsRefused, match=r"^messages\[0\]: only .* role tool .* this one is of role user"):
        check_turns([USER._replace(tool_call_id="1")], LIMITS)


@pytest.mark.parametrize(
    "arguments", ["[]", "1", "{", "{} {}", "x" * 1000, '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a":' * 70]
)
def test_arguments_that_are_no_object(arguments: str) -> None:
    with pytest.raises(ToolsRefused) as refused:
        check_turns([Turn("assistant", None, (call_of("1", arguments),))], LIMITS)
    assert refused.value.param == "messages[0].tool_calls[0].function.arguments"
    assert (refused.value.code, len(refused.value.message) < 300) == ("invalid_json", True)


@given(st.dictionaries(st.text(max_size=3), values(st.text(max_size=3)), max_size=3))
def test_arguments_that_are_an_object(arguments: dict[str, Any]) -> None:
    assert arguments_object(json.dumps(arguments, indent=2)) == arguments


@given(values(st.just("x")))
def test_depth(value: Any) -> None:
    def depth(inner: Any) -> int:
        children = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else None
        return 0 if children is None else 1 + max(map(depth, children), default=0)

    assert not is_deeper(value, depth(value))
    assert depth(value) == 0 or is_deeper(value, depth(value) - 1)
