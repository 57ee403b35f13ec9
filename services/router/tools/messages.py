"""What a chat template gets of a chat with tools, as Hugging Face's templates expect it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from baton.core.errors import InvariantViolated
from baton.services.router.tools.types import Tool, ToolCall, Turn
from baton.services.router.tools.validate import arguments_object

Hide = Callable[[str], str]


class TemplateInput(NamedTuple):
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None  #: None: templates test for it


def template_messages(turns: Sequence[Turn], tools: Sequence[Tool], hide: Hide = str) -> TemplateInput:
    """Checked turns and tools as the variables `messages` and `tools`.

    Arguments of calls are objects, a tool's result carries the `name` of the function that it answers. A member that
    the client left out is left out, but for `content`, which templates read without asking: it is an empty text.
    `hide` is applied to every text that a client wrote, keys included, so that none can spell a control token.
    """
    names: dict[str, str] = {}
    messages = []
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": hide(turn.text or "")}
        if turn.name is not None:
            message["name"] = hide(turn.name)
        if turn.tool_calls:
            message["tool_calls"] = [_call(call, hide) for call in turn.tool_calls]
            names.update((call.id, call.function.name) for call in turn.tool_calls)
        if turn.tool_call_id is not None:
            message["tool_call_id"] = hide(turn.tool_call_id)
            message["name"] = hide(names[turn.tool_call_id])
        messages.append(message)
    return TemplateInput(messages, [_tool(tool, hide) for tool in tools] or None)


def _call(call: ToolCall, hide: Hide) -> dict[str, Any]:
    arguments = arguments_object(call.function.arguments)
    if arguments is None:
        raise InvariantViolated("a call's arguments were not checked")
    function = {"name": hide(call.function.name), "arguments": hidden(arguments, hide)}
    return {"id": hide(call.id), "type": "function", "function": function}


def _tool(tool: Tool, hide: Hide) -> dict[str, Any]:
    """Templates read `description` and `parameters` without asking."""
    spec = tool.function
    parameters = spec.parameters if spec.parameters is not None else {"type": "object", "properties": {}}
    function: dict[str, Any] = {
        "name": spec.name,
        "description": hide(spec.description or ""),
        "parameters": hidden(parameters, hide),
    }
    if spec.strict is not None:
        function["strict"] = spec.strict
    return {"type": "function", "function": function}


def hidden(value: Any, hide: Hide) -> Any:
    """The same JSON value with every text hidden. Its depth was checked."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [hidden(inner, hide) for inner in value]
    if isinstance(value, dict):
        return {hide(key): hidden(inner, hide) for key, inner in value.items()}
    return value
