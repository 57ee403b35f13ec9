"""The fields of a chat request that concern tools, typed as OpenAI's API has them, and the messages as they are used.

`validate` checks what types cannot say. `null` means the default.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec


class FunctionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that the model may call. `parameters` is a JSON schema; without it there are no arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: FunctionSpec


class FunctionName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class NamedChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The output is a call of this function."""

    type: Literal["function"]
    function: FunctionName


ToolChoice: TypeAlias = Literal["none", "auto", "required"] | NamedChoice


class FunctionCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: str  #: JSON of an object; empty counts as `{}`


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call in an assistant's message."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Turn(NamedTuple):
    """A message of a chat, whatever fields its JSON had."""

    role: str
    text: str | None  #: None only where the assistant called tools and said nothing
    tool_calls: tuple[ToolCall, ...] = ()  #: of an assistant
    tool_call_id: str | None = None  #: of a tool: the call that the text answers
    name: str | None = None  #: of who speaks, for templates that show it


class ToolUse(NamedTuple):
    """What a request asks for, after validation."""

    tools: tuple[Tool, ...]  #: offered to the model; empty where the choice is "none"
    choice: Literal["none", "auto", "required"]  #: a named function: "required", of the only tool in `callable_tools`
    callable_tools: tuple[Tool, ...]  #: that a call may be of
    is_parallel: bool  #: whether more than one call may come

    def schemas(self) -> dict[str, Any]:
        """JSON schema of the parameters, by function."""
        return {tool.function.name: tool.function.parameters or {} for tool in self.tools}
