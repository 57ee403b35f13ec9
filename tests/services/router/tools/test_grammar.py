"""Outputs drawn at random under the grammar of a demanded call are calls with valid arguments."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from baton.services.grammar.errors import BadGrammar
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.vocabulary import Vocabulary
from baton.services.model.tiny import byte_tokenizer
from baton.services.router.tools.detect import FORMATS, ToolFormat
from baton.services.router.tools.grammar import CallShape, call_grammar, output_shape
from baton.services.router.tools.parsers import new_parser
from baton.services.router.tools.types import FunctionSpec, Tool, ToolUse
from tests.services.router.tools.outputs import Parsed, collected

NUM_BYTES, END = 256, 257
MAX_TOKENS = 3000
CLOSING = frozenset(b"\"'</}]),0")  #: what brings an output to its end
PROPERTIES: dict[str, Any] = {
    "num": {"type": "integer"},
    "text": {"type": "string"},
    "flags": {"$ref": "#/$defs/Flags"},
    "side": {"enum": ["left", "right"]},
    "place": {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": False},
}
STRICT = {"type": "object", "additionalProperties": False}
TOOLS = (
    Tool(
        "function",
        FunctionSpec(
            "f-1",
            None,
            {
                **STRICT,
                "properties": PROPERTIES,
                "required": ["text", "side"],
                "$defs": {"Flags": {"type": "array", "items": {"type": "boolean"}}},
            },
        ),
    ),
    Tool("function", FunctionSpec("now")),
    Tool("function", FunctionSpec("g", None, {**STRICT, "properties": {k: PROPERTIES[k] for k in ("num", "text")}})),
)
VOCABULARY = Vocabulary(json.dumps(byte_tokenizer()), 260, (END, 259))


def draw(grammar: str, seed: int) -> str:
    """An output whose tokens are random bytes that the grammar allows, with a leaning to those that close something."""
    failures: list[str] = []
    matcher = Matchers(VOCABULARY, on_failure=failures.append).start(grammar)
    source = random.Random(seed)
    output = bytearray()
    planned: list[int] = []
    while len(output) < MAX_TOKENS:
        allowed = [int(token) for token in matcher.mask().token_ids()]
        written = [token for token in allowed if token < NUM_BYTES]
        if END in allowed and (not written or source.random() < 0.3):
            assert not failures
            return output.decode(errors="replace")
        if not planned and len(written) > NUM_BYTES // 4 and source.random() < 0.05:
            planned = list(b"</parameter>")
        closing = [token for token in written if token in CLOSING]
        token = planned.pop(0) if planned else source.choice(closing if closing and source.random() < 0.6 else written)
        assert token in allowed
        output.append(token)
        matcher.take(token)
    pytest.fail(f"no end within {MAX_TOKENS} bytes")


def parsed(tool_format: ToolFormat, use: ToolUse, seed: int) -> Parsed:
    parser = new_parser(tool_format, use.schemas())
    output = draw(call_grammar(output_shape(tool_format, use)), seed)
    return collected(parser.push(output) + parser.finish())


def check_arguments(name: str, arguments: dict[str, Any]) -> None:
    """As the schemas above have it."""
    types = {"num": int, "text": str, "flags": list, "side": str, "place": dict}
    expected = {"f-1": set(PROPERTIES), "now": set(), "g": {"num", "text"}}[name]
    assert set(arguments) <= expected
    assert name != "f-1" or {"text", "side"} <= set(arguments)
    assert all(type(value) is types[key] for key, value in arguments.items())
    assert arguments.get("side", "left") in ("left", "right")
    assert all(type(flag) is bool for flag in arguments.get("flags", []))
    assert set(arguments.get("place", {})) <= {"x"}


@pytest.mark.parametrize("tool_format", FORMATS)
@pytest.mark.parametrize("is_parallel", [True, False])
def test_what_is_drawn_is_calls(tool_format: ToolFormat, is_parallel: bool) -> None:
    most_calls = 0
    names = set()
    for seed in range(12):
        text, calls = parsed(tool_format, ToolUse(TOOLS, "required", TOOLS, is_parallel), seed)
        assert text == ""
        assert calls
        for call in calls:
            assert call.is_complete
            check_arguments(call.name, json.loads(call.arguments))
            names.add(call.name)
        most_calls = max(most_calls, len(calls))
    assert (most_calls > 1) == is_parallel
    assert len(names) > 1


@pytest.mark.parametrize("tool_format", FORMATS)
def test_a_named_function_is_the_one_that_is_called(tool_format: ToolFormat) -> None:
    for seed in range(4):
        _, calls = parsed(tool_format, ToolUse(TOOLS, "required", TOOLS[:1], False), seed)
        assert [call.name for call in calls] == ["f-1"]
        check_arguments("f-1", json.loads(calls[0].arguments))


def test_shapes() -> None:
    use = ToolUse(TOOLS, "required", TOOLS[1:2], True)
    shape = output_shape("mistral", use)
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert shape.calls == (CallShape('{"name": "now", "arguments": ', schema, "}"),)
    assert (shape.before, shape.separator, shape.after, shape.max_calls) == ("[TOOL_CALLS][", ", ", "]", None)
    assert output_shape("hermes", use._replace(is_parallel=False)).max_calls == 1


@pytest.mark.parametrize("tool_format", ["qwen3_coder", "pythonic"])
@pytest.mark.parametrize("schema", [{"required": ["x"]}, {"properties": {"<": {}}, "required": ["<"]}, {"required": 1}])
def test_parameters_that_cannot_be_written(tool_format: ToolFormat, schema: dict[str, Any]) -> None:
    tools = (Tool("function", FunctionSpec("f", None, schema)),)
    with pytest.raises(BadGrammar):
        call_grammar(output_shape(tool_format, ToolUse(tools, "required", tools, False)))
