"""Outputs for the parsers: cut, parsed, written, and made of what could confuse."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.events import ArgumentsDelta, CallBegun, CallEnded, TextDelta, ToolEvent, merged
from baton.services.router.tools.parsers import new_parser

CUTS = st.lists(st.integers(0, 10_000), max_size=12)
SCHEMAS = {
    "f": {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": ["array", "null"]}}},
    "g": None,
}
#: pieces of every notation, whole and broken
FRAGMENTS: dict[ToolFormat, tuple[str, ...]] = {
    "hermes": ("<tool_call>", "</tool_call>", "<tool_", "[", "]"),
    "llama3_json": ("<|python_tag|>", "<|pyth", ";", '{"name": "f", "parameters": {"x": 1}}'),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[TOOL_", "[", "]", "f", "[TOOL_CALLS]g[ARGS]{}"),
    "qwen3_coder": (
        "<tool_call>", "</tool_call>", "<function=f>", "<function=g>", "</function>", "<parameter=a>", "<parameter=b>",
        "<parameter=c>", "</parameter>", "\n</parameter>\n", "</para", "12", "[1, 2]", "true", "null", "\n\n", ">", "<",
    ),
    "pythonic": (
        "<|python_start|>", "<|python_end|>", "[f(", "[", "f(", "a=", "b =", ")", "]", "'x'", '"y\\', "\\x4", "\\u00e9",
        "\\17", "True", "None", "nope", "-1.5e3", ".5", "0x1", "{'k': ", "[f(a=1), g()]",
    ),
}  # fmt: skip
COMMON = (
    " ", "\n", "text", "é😀", "{", "}", ",", ":", '"', '"name"', '"name": "f", ', '"arguments": ', '"parameters": ',
    '{"name": "g", "arguments": {}}', '{"name": "f", "arguments": {"a": [1, "\\u00e9\\"<tool_call>"]}}', '"id": 3',
)  # fmt: skip


def soups(tool_format: ToolFormat) -> st.SearchStrategy[str]:
    """Outputs that no model should write."""
    return st.lists(st.sampled_from(FRAGMENTS[tool_format] + COMMON), max_size=24).map("".join)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({*(cut % (len(text) + 1) for cut in cuts), len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def parse(tool_format: ToolFormat, pieces: list[str]) -> list[ToolEvent]:
    """All events of an output that comes in these pieces, neighbouring deltas joined."""
    parser = new_parser(tool_format, SCHEMAS)
    return merged([event for piece in pieces for event in parser.push(piece)] + parser.finish())


class Call(NamedTuple):
    name: str
    arguments: str
    is_complete: bool | None  #: None: it never ended


class Parsed(NamedTuple):
    text: str
    calls: list[Call]


def collected(events: list[ToolEvent]) -> Parsed:
    """The events as a client adds them up; asserts that their order makes sense."""
    text, calls = "", list[Call]()
    for event in events:
        match event:
            case TextDelta(text=more):
                assert more
                text += more
            case CallBegun(index=index, name=name):
                assert index == len(calls)
                assert not calls or calls[-1].is_complete is not None
                calls.append(Call(name, "", None))
            case ArgumentsDelta(index=index, json_text=more):
                assert more
                assert index == len(calls) - 1
                assert calls[-1].is_complete is None
                calls[-1] = calls[-1]._replace(arguments=calls[-1].arguments + more)
            case CallEnded(index=index, is_complete=is_complete):
                assert index == len(calls) - 1
                assert calls[-1].is_complete is None
                calls[-1] = calls[-1]._replace(is_complete=is_complete)
    return Parsed(text, calls)


def read(tool_format: ToolFormat, text: str) -> Parsed:
    return collected(parse(tool_format, [text]))


def is_object(text: str) -> bool:
    """Whether strict JSON says so."""
    try:
        return isinstance(json.loads(text, parse_constant=lambda _: 1 / 0), dict)
    except (ValueError, ZeroDivisionError):
        return False


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values."""
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
    return st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
