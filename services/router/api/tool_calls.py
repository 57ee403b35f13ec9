"""Tool calls of one choice, in OpenAI's shape."""

from __future__ import annotations

import secrets

from baton.services.router.api.answers import (
    AssistantMessage,
    CalledFunction,
    ChatDelta,
    FunctionDelta,
    ToolCall,
    ToolCallDelta,
)
from baton.services.router.api.ask import ToolPlan
from baton.services.router.tools.call_ids import new_call_id
from baton.services.router.tools.events import ArgumentsDelta, CallBegun, CallEnded, TextDelta, ToolEvent
from baton.services.router.tools.parsers import new_parser


class Call:
    """One that was begun."""

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.arguments: list[str] = []  #: pieces of the JSON


class ChoiceCalls:
    """Text in; deltas for a stream out, and the whole of it as a message."""

    def __init__(self, plan: ToolPlan) -> None:
        self.calls: list[Call] = []
        self._text: list[str] = []  #: outside of calls
        self._plan = plan
        self._parser = new_parser(plan.format, plan.schemas, plan.is_parallel)

    def push(self, text: str, is_last: bool) -> list[ChatDelta]:
        """What this text adds."""
        events = self._parser.push(text)
        if is_last:
            events += self._parser.finish()
        return [delta for event in events if (delta := self._apply(event)) is not None]

    def finish(self, reason: str) -> str:
        """The choice's finish, given that of its tokens."""
        return "tool_calls" if reason == "stop" and self.calls and not self._plan.is_named else reason

    def message(self) -> AssistantMessage:
        """All of it."""
        text = "".join(self._text)
        if not self.calls:
            return AssistantMessage(content=text)
        made = [
            ToolCall(id=call.call_id, function=CalledFunction(name=call.name, arguments="".join(call.arguments)))
            for call in self.calls
        ]
        return AssistantMessage(content=text or None, tool_calls=made)

    def _apply(self, event: ToolEvent) -> ChatDelta | None:
        match event:
            case TextDelta(text):
                self._text.append(text)
                return ChatDelta(content=text)
            case CallBegun(index, name):
                call_id = new_call_id(self._plan.format, secrets.token_bytes)
                self.calls.append(Call(call_id, name))
                function = FunctionDelta(name=name, arguments="")
                return _delta(ToolCallDelta(index=index, id=call_id, type="function", function=function))
            case ArgumentsDelta(index, json_text):
                self.calls[index].arguments.append(json_text)
                return _delta(ToolCallDelta(index=index, function=FunctionDelta(arguments=json_text)))
            case CallEnded():
                return None


def _delta(call: ToolCallDelta) -> ChatDelta:
    return ChatDelta(tool_calls=[call])
