"""Every endpoint that takes a body, bodies that hold each kind of object that their types know, and ways into them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec.inspect as mi

from baton.services.router.api.bodies import ChatBody, CompletionBody
from baton.services.router.api.responses_bodies import CallItem, MessageItem, ResponsesBody, ResultItem
from baton.services.router.api.tokenizing import DetokenizeBody, TokenizeBody

USER = {"role": "user", "content": "x"}
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "of x", "parameters": {"type": "object", "properties": {"a": {}}}},
}
#: the least that each endpoint answers
PLAIN: dict[str, dict[str, Any]] = {
    "/v1/completions": {"model": "tiny", "prompt": "x", "max_tokens": 4},
    "/v1/chat/completions": {"model": "tiny", "messages": [USER], "max_tokens": 4},
    "/v1/responses": {"model": "tiny", "input": "x", "max_output_tokens": 4},
    "/tokenize": {"model": "tiny", "prompt": "x"},
    "/detokenize": {"model": "tiny", "tokens": [120]},
}
BODIES: dict[str, Any] = {
    "/v1/completions": CompletionBody,
    "/v1/chat/completions": ChatBody,
    "/v1/responses": ResponsesBody,
    "/tokenize": TokenizeBody,
    "/detokenize": DetokenizeBody,
}
BODY_TYPES = (*BODIES.values(), MessageItem, CallItem, ResultItem)  #: items are typed on their own
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a": "x"}'}}
MESSAGES = [
    {"role": "system", "content": [{"type": "text", "text": "x"}], "name": "x"},
    {"role": "assistant", "content": "x", "tool_calls": [CALL], "refusal": "x"},
    {"role": "tool", "tool_call_id": "a", "content": "x"},
]
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}], "id": "x"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
    {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"a": "x"}', "id": "x"},
    {"type": "function_call_output", "call_id": "a", "output": [{"type": "text", "text": "x"}]},
]
SCHEMA = {"type": "object", "description": "x", "properties": {"a": {"enum": ["x"]}}}
COMMON = {
    "stop": ["x"],
    "user": "x",
    "cache_salt": "x",
    "logit_bias": {"5": 1},
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "description": "x", "schema": SCHEMA}},
    "guided_json": SCHEMA,
    "guided_regex": "x",
    "guided_choice": ["x"],
    "guided_grammar": "x",
}
#: not to be answered: to be taken apart
RICH: dict[str, dict[str, Any]] = {
    "/v1/completions": PLAIN["/v1/completions"] | COMMON | {"suffix": "x"},
    "/v1/chat/completions": {
        **PLAIN["/v1/chat/completions"],
        **COMMON,
        "messages": MESSAGES,
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "metadata": {"x": "x"},
        "prompt_cache_key": "x",
        "safety_identifier": "x",
    },
    "/v1/responses": {
        **PLAIN["/v1/responses"],
        "instructions": "x",
        "input": ITEMS,
        "tools": [{"type": "function", "name": "f", "description": "x", "parameters": SCHEMA}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "x", "description": "x", "schema": SCHEMA}},
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "reasoning": {"effort": None},
        "metadata": {"x": "x"},
        "user": "x",
        "cache_salt": "x",
        "prompt_cache_key": "x",
        "safety_identifier": "x",
    },
    "/tokenize": {"model": "tiny", "messages": MESSAGES, "tools": [TOOL]},
    "/detokenize": PLAIN["/detokenize"],
}
#: objects of these names are the client's own: any member may be in them
FREE = {"schema", "parameters", "guided_json", "metadata", "logit_bias"}


class Place(NamedTuple):
    """Somewhere in a body."""

    path: tuple[str | int, ...]

    @property
    def param(self) -> str:
        """As errors write it."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")

    def changed(self, body: dict[str, Any], value: Any) -> dict[str, Any]:
        """A copy of the body with this value there."""
        copied = copy.deepcopy(body)
        here: Any = copied
        for step in self.path[:-1]:
            here = here[step]
        here[self.path[-1]] = value
        return copied


def objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every object in which only known members may be."""
    if isinstance(value, dict):
        yield Place(path)
        for key, inner in value.items():
            if key not in FREE:
                yield from objects(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, (*path, index))


def texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every text."""
    if isinstance(value, str):
        yield Place(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from texts(inner, (*path, key))


def structs(kind: mi.Type, seen: set[type]) -> Iterator[mi.StructType]:
    """All struct types that a type is made of."""
    if isinstance(kind, mi.StructType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
        yield kind
    for inner in parts(kind):
        yield from structs(inner, seen)


def parts(kind: mi.Type) -> list[mi.Type]:
    """The types that it is directly made of."""
    match kind:
        case mi.StructType(fields=fields):
            return [field.type for field in fields]
        case mi.UnionType(types=types):
            return list(types)
        case mi.ListType(item_type=item_type):
            return [item_type]
        case mi.DictType(key_type=key_type, value_type=value_type):
            return [key_type, value_type]
    return []


def encoded(body: dict[str, Any], name: str, raw: bytes) -> bytes:
    """JSON in which the text `name` is replaced by these bytes."""
    return json.dumps(body).encode().replace(name.encode(), raw)
