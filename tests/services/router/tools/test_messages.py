"""What templates get, and what they make of it."""

from __future__ import annotations

import json
import re
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import InvariantViolated
from baton.services.router.text.control_tokens import ControlTokens
from baton.services.router.tools.messages import template_messages
from baton.services.router.tools.parsers import new_parser
from baton.services.router.tools.types import FunctionCall, FunctionSpec, Tool, ToolCall, Turn
from tests.services.router.tools.outputs import Call, collected, values
from tests.services.router.tools.templates import HERMES, LLAMA

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (
    Tool("function", FunctionSpec("weather", "Tells the <|im_end|>", SCHEMA)),
    Tool("function", FunctionSpec("now", strict=True)),
)
CALL = ToolCall("c1", "function", FunctionCall("weather", '{"city": "Bern"}'))
TURNS = [Turn("user", "and?"), Turn("assistant", None, (CALL,)), Turn("tool", "rain", tool_call_id="c1")]


def render(template: str, **variables: Any) -> str:
    environment = jinja2.Environment(autoescape=False)
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    return environment.from_string(template).render(add_generation_prompt=True, **variables)


def test_messages_and_tools() -> None:
    messages, tools = template_messages(TURNS, TOOLS)
    function = {"name": "weather", "arguments": {"city": "Bern"}}
    assert messages == [
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "content": "rain", "tool_call_id": "c1", "name": "weather"},
    ]
    assert tools is not None
    assert tools[0]["function"] == {"name": "weather", "description": "Tells the <|im_end|>", "parameters": SCHEMA}
    assert tools[1] == {
        "type": "function",
        "function": {
            "name": "now",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
            "strict": True,
        },
    }
    assert template_messages(TURNS, ()).tools is None


def test_a_template_in_the_style_of_hermes() -> None:
    given_ = template_messages(TURNS, TOOLS)
    rendered = render(HERMES, **given_._asdict())
    assert '\n{"type": "function", "function": {"name": "weather", ' in rendered
    assert '<tool_response name="weather">\nrain\n' in rendered
    answer = rendered.split("<|im_start|>assistant\n")[1].split("<|im_end|>")[0]
    assert collected(new_parser("hermes", {}).push(answer)).calls == [Call("weather", '{"city": "Bern"}', True)]


def test_a_template_in_the_style_of_llama() -> None:
    given_ = template_messages(TURNS, TOOLS)
    rendered = render(LLAMA, **given_._asdict())
    assert '"name": "now"' in rendered
    assert 'ipython<|end_header_id|>\n\n"rain"<|eot_id|>' in rendered
    answer = rendered.split("assistant<|end_header_id|>\n\n")[1].split("<|eot_id|>")[0]
    assert collected(new_parser("llama3_json", {}).push(answer)).calls == [Call("weather", '{"city": "Bern"}', True)]
    assert "Functions" not in render(LLAMA, **template_messages(TURNS, ())._asdict())


def test_a_repeated_id_means_the_latest_call() -> None:
    again = ToolCall("c1", "function", FunctionCall("now", ""))
    turns = [*TURNS, Turn("assistant", None, (again,)), Turn("tool", "noon", tool_call_id="c1")]
    messages, _ = template_messages(turns, TOOLS)
    assert [message.get("name") for message in messages] == [None, None, "weather", None, "now"]
    assert messages[3]["tool_calls"][0]["function"]["arguments"] == {}


@given(values(st.text("ab", max_size=3)))
def test_every_text_within_a_value_is_hidden_and_nothing_else(value: Any) -> None:
    control = ControlTokens(("a", "b"))
    hidden = json.dumps(control.hide_all(value, "m"), ensure_ascii=False)
    assert json.loads("".join(text for text, _ in control.split(hidden, "m"))) == value
    assert not any("a" in text or "b" in text for text in re.findall(r'"([^"]*)"', hidden))


def test_no_text_of_a_client_reaches_the_template_as_it_is() -> None:
    secret = "<|im_end|>"
    call = ToolCall(secret, "function", FunctionCall(secret, json.dumps({secret: [secret]})))
    schema = {"properties": {secret: {"description": secret}}}
    given_ = template_messages(
        [Turn("user", secret), Turn("assistant", secret, (call,)), Turn("tool", secret, tool_call_id=secret)],
        [Tool("function", FunctionSpec("f", secret, schema))],
    )
    control = ControlTokens((secret,))
    hidden = json.dumps([control.hide_all(part, "m") for part in given_], ensure_ascii=False)
    assert secret not in hidden
    assert sum(is_hidden for _, is_hidden in control.split(hidden, "m")) == 12


def test_unchecked_arguments_are_a_bug() -> None:
    with pytest.raises(InvariantViolated):
        template_messages([Turn("assistant", None, (ToolCall("1", "function", FunctionCall("f", "["),),))], ())


def test_the_name_of_who_speaks_goes_to_the_template() -> None:
    found = template_messages([Turn("user", "hi", name="ann"), Turn("user", "ho")], ())
    assert [message.get("name") for message in found.messages] == ["ann", None]
