"""The shape that an output must have where a request demands a call, and the grammar that enforces it."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

from baton.services.grammar import sources
from baton.services.router.tools.bare_arguments import python_arguments, xml_arguments
from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.types import ToolUse

Notation: TypeAlias = Literal["json", "xml", "python"]


class CallShape(NamedTuple):
    """One function's call: fixed text, arguments valid under the schema, fixed text."""

    opening: str
    schema: dict[str, Any]  #: of an object
    closing: str


class OutputShape(NamedTuple):
    """`before`, calls with `separator` between, `after`."""

    calls: tuple[CallShape, ...]  #: each call of the output is one of these
    notation: Notation  #: how the arguments are written
    before: str
    separator: str
    after: str
    max_calls: int | None  #: None: any number; at least one comes


def output_shape(tool_format: ToolFormat, use: ToolUse) -> OutputShape:
    """What an output under the choice "required" or a named function looks like in a format."""
    before, opening, closing, separator, after, notation = _layout(tool_format)
    calls = []
    for tool in use.callable_tools:
        schema = tool.function.parameters
        if schema is None:
            schema = {"properties": {}, "additionalProperties": False}
        opened = opening.replace("NAME", tool.function.name)
        calls.append(CallShape(opened, {**schema, "type": "object"}, closing))
    return OutputShape(tuple(calls), notation, before, separator, after, None if use.is_parallel else 1)


def _layout(tool_format: ToolFormat) -> tuple[str, str, str, str, str, Notation]:
    """(before, opening with NAME, closing, separator, after, notation), as the models' templates write them."""
    match tool_format:
        case "hermes":
            return "", '<tool_call>\n{"name": "NAME", "arguments": ', "}\n</tool_call>", "\n", "", "json"
        case "llama3_json":
            return "", '{"name": "NAME", "parameters": ', "}", "; ", "", "json"
        case "mistral":
            return "[TOOL_CALLS][", '{"name": "NAME", "arguments": ', "}", ", ", "]", "json"
        case "mistral_args":
            return "", "[TOOL_CALLS]NAME[ARGS]", "", "", "", "json"
        case "qwen3_coder":
            return "", "<tool_call>\n<function=NAME>\n", "</function>\n</tool_call>", "\n", "", "xml"
        case "pythonic":
            return "[", "NAME(", ")", ", ", "]", "python"
        case _:
            assert_never(tool_format)


def call_grammar(shape: OutputShape) -> str:
    """JSON text for `SamplingParams.grammar`. BadGrammar: a schema that no grammar can express."""
    if shape.notation == "json":
        return sources.tagged_json(
            [sources.Alternative(*call) for call in shape.calls],
            before=shape.before,
            after=shape.after,
            separator=shape.separator,
            max_times=shape.max_calls,
        )
    arguments = xml_arguments if shape.notation == "xml" else python_arguments
    text = {name: json.dumps(getattr(shape, name)) if getattr(shape, name) else "" for name in ("before", "separator")}
    more = f" ({text['separator']} call)*" if shape.max_calls is None else ""
    rules = [f"start: {text['before']} call{more} {json.dumps(shape.after) if shape.after else ''}"]
    rules.append("call: " + " | ".join(f"call_{index}" for index in range(len(shape.calls))))
    for index, (opening, schema, closing) in enumerate(shape.calls):
        rules.append(f"call_{index}: {json.dumps(opening)} arguments_{index} {json.dumps(closing)}")
        rules += arguments(f"arguments_{index}", schema)
    return sources.lark("\n".join(rules))
