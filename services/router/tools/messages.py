"""What a chat template gets of a chat with tools, as Hugging Face's templates expect it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baton.core.errors import InvariantViolated
from baton.services.router.api.ask import ChatPrompt
from baton.services.router.tools.types import Tool, ToolCall, Turn
from baton.services.router.tools.validate import arguments_object


def template_messages(turns: Sequence[Turn], tools: Sequence[Tool]) -> ChatPrompt:
    """Checked turns and tools as the variables `messages` and `tools`.

    Arguments of calls are objects, a tool's result carries the `name` of the function that it answers. A member that
    the client left out is left out, but for `content`, which templates read without asking: it is an empty text.
    """
    names: dict[str, str] = {}
    messages = []
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.text or ""}
        if turn.name is not None:
            message["name"] = turn.name
        if turn.tool_calls:
            message["tool_calls"] = [_call(call) for call in turn.tool_calls]
            names.update((call.id, call.function.name) for call in turn.tool_calls)
        if turn.tool_call_id is not None:
            message["tool_call_id"] = turn.tool_call_id
            message["name"] = names[turn.tool_call_id]
        messages.append(message)
    return ChatPrompt(messages, [_tool(tool) for tool in tools] or None)


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = arguments_object(call.function.arguments)
    if arguments is None:
        raise InvariantViolated("a call's arguments were not checked")
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: Tool) -> dict[str, Any]:
    """Templates read `description` and `parameters` without asking."""
    spec = tool.function
    parameters = spec.parameters if spec.parameters is not None else {"type": "object", "properties": {}}
    function: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description or "",
        "parameters": parameters,
    }
    if spec.strict is not None:
        function["strict"] = spec.strict
    return {"type": "function", "function": function}
