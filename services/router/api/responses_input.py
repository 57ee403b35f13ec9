"""The items of a conversation as chat messages, and the way back from a message's field to the item's, for errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from baton.services.router.api.bodies import ChatMessage
from baton.services.router.api.bodies import TextPart as ChatText
from baton.services.router.api.ranges import at_most
from baton.services.router.api.responses_bodies import (
    CallItem,
    InputItem,
    MessageItem,
    ResponsesBody,
    ResultItem,
    TextPart,
)
from baton.services.router.config import HttpConfig
from baton.services.router.errors import invalid
from baton.services.router.http.body import decode_body
from baton.services.router.tools.types import FunctionCall, ToolCall

ITEMS: dict[str, type[InputItem]] = {
    "message": MessageItem,
    "function_call": CallItem,
    "function_call_output": ResultItem,
}
#: a field of `messages[3]` or `messages[3].tool_calls[1]`, at the start of a text
MESSAGE_FIELD = re.compile(r"messages\[(\d+)\](\.tool_calls(?:\[(\d+)\])?)?(?:\.function)?(?:\.(\w+))?")


class Kind(msgspec.Struct):
    """What is read of an item first."""

    type: str = "message"


class Origin(NamedTuple):
    """Where a chat message comes from."""

    param: str
    content: str  #: the param of its text
    calls: list[str]  #: params of its calls


class Conversation(NamedTuple):
    """Chat messages, and the origin of each."""

    messages: list[ChatMessage]
    origins: list[Origin]

    def add(self, message: ChatMessage, origin: Origin) -> None:
        self.messages.append(message)
        self.origins.append(origin)

    def named(self, text: str) -> str:
        """`text`, which may begin with the name of a message's field, with the item's name instead."""
        found = MESSAGE_FIELD.match(text)
        if found is None:
            return text
        origin = self.origins[int(found[1])]
        if found[2] is not None:
            name = origin.calls[int(found[3] or 0)]
            name += {None: "", "id": ".call_id"}.get(found[4], f".{found[4]}")
        elif found[4] == "content":
            name = origin.content
        else:
            name = origin.param + {None: "", "tool_call_id": ".call_id"}.get(found[4], f".{found[4]}")
        return name + text[found.end() :]


def conversation_of(body: ResponsesBody, config: HttpConfig) -> Conversation:
    """Instructions first. Calls that follow each other, or an assistant's message, are one message with it."""
    found = Conversation([], [])
    if body.instructions:
        found.add(ChatMessage("system", body.instructions), Origin("instructions", "instructions", []))
    if isinstance(body.input, str):
        found.add(ChatMessage("user", body.input), Origin("input", "input", []))
        return found
    if not body.input:
        raise invalid("input is empty", "input", "empty")
    at_most("input", len(body.input), config.max_messages, "items")
    for index, raw in enumerate(body.input):
        add_item(found, f"input[{index}]", read_item(f"input[{index}]", raw), config)
    return found


def read_item(param: str, raw: msgspec.Raw) -> InputItem:
    kind = decode_body(raw, Kind, param).type
    if kind not in ITEMS:
        raise invalid(f"{param}.type is {kind!r}, must be one of {', '.join(ITEMS)}", f"{param}.type", "invalid_type")
    return decode_body(raw, ITEMS[kind], param)


def add_item(found: Conversation, param: str, item: InputItem, config: HttpConfig) -> None:
    match item:
        case MessageItem(role=role, content=content):
            origin = Origin(param, f"{param}.content", [])
            calls: list[ToolCall] | None = [] if role == "assistant" else None
            found.add(ChatMessage(role, text_of(origin.content, content, config), tool_calls=calls), origin)
        case ResultItem(call_id=call_id, output=output):
            origin = Origin(param, f"{param}.output", [])
            found.add(ChatMessage("tool", text_of(origin.content, output, config), tool_call_id=call_id), origin)
        case CallItem():
            add_call(found, param, ToolCall(item.call_id, "function", FunctionCall(item.name, item.arguments)))


def add_call(found: Conversation, param: str, call: ToolCall) -> None:
    """To the assistant's message that it follows, or to one without text."""
    last = found.messages[-1].tool_calls if found.messages else None
    if last is None:
        found.add(ChatMessage("assistant", tool_calls=[call]), Origin(param, param, [param]))
    else:
        last.append(call)
        found.origins[-1].calls.append(param)


def text_of(param: str, content: str | Sequence[TextPart], config: HttpConfig) -> str | list[ChatText]:
    if isinstance(content, str):
        return content
    at_most(param, len(content), config.max_content_parts, "parts")
    return [ChatText("text", part.text) for part in content]
