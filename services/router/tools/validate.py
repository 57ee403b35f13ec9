"""Whether the tools, the choice and the calls in the messages of a request fit together; a refusal names the field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from baton.services.router.json_bounds import excess
from baton.services.router.tools.errors import ToolsRefused
from baton.services.router.tools.json_scan import MAX_DEPTH
from baton.services.router.tools.types import NamedChoice, Tool, ToolCall, ToolChoice, ToolUse, Turn

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_SHOWN_CHARS = 80  #: of what the client sent


class ToolLimits(NamedTuple):
    max_tools: int = 128
    max_tools_bytes: int = 256 * 1024  #: of all tools, as JSON
    max_calls: int = 128  #: in one message


def shown(text: str) -> str:
    """Client's text in a message of ours."""
    return repr(text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…")


def tool_use(
    tools: Sequence[Tool] | None, choice: ToolChoice | None, parallel: bool | None, limits: ToolLimits
) -> ToolUse:
    """The three fields together. Without a choice it is "auto" where tools are offered. `[]` is as no tools."""
    offered = tuple(tools or ())
    check_tools(offered, limits)
    if not offered:
        if choice not in (None, "none"):
            raise ToolsRefused("tool_choice needs tools", "tool_choice", "conflict")
        if parallel is not None:
            raise ToolsRefused("parallel_tool_calls needs tools", "parallel_tool_calls", "conflict")
    if choice == "none" or not offered:
        return ToolUse((), "none", (), False)
    is_parallel = parallel is not False
    if isinstance(choice, NamedChoice):
        chosen = tuple(tool for tool in offered if tool.function.name == choice.function.name)
        if not chosen:
            raise ToolsRefused(
                f"tool_choice names {shown(choice.function.name)}, which is none of the tools",
                "tool_choice.function.name",
                "unknown_function",
            )
        return ToolUse(offered, "required", chosen, False)
    kind: Literal["auto", "required"] = choice or "auto"
    return ToolUse(offered, kind, offered, is_parallel)


def check_tools(tools: Sequence[Tool], limits: ToolLimits) -> None:
    """Names, counts, sizes and nesting."""
    if len(tools) > limits.max_tools:
        raise ToolsRefused(f"tools has {len(tools)} tools, the limit is {limits.max_tools}", "tools", "too_many")
    seen: set[str] = set()
    num_bytes = 0
    for index, tool in enumerate(tools):
        _check_function(tool, f"tools[{index}].function", seen)
        seen.add(tool.function.name)
        num_bytes += len(msgspec.json.encode(tool))
        if num_bytes > limits.max_tools_bytes:
            raise ToolsRefused(f"tools has more than {limits.max_tools_bytes} bytes", "tools", "too_large")


def _check_function(tool: Tool, param: str, seen: set[str]) -> None:
    name, parameters = tool.function.name, tool.function.parameters
    if NAME.fullmatch(name) is None:
        expected = "must have from 1 to 64 letters, digits, _ or -"
        raise ToolsRefused(f"{param}.name is {shown(name)}, {expected}", f"{param}.name", "invalid_name")
    if name in seen:
        raise ToolsRefused(f"{param}.name is {shown(name)} a second time", f"{param}.name", "duplicate_name")
    param += ".parameters"
    if parameters is not None and parameters.get("type", "object") != "object":
        raise ToolsRefused(f"{param} is the schema of something else than an object", param, "invalid_schema")
    if is_deeper(parameters, MAX_DEPTH):
        raise ToolsRefused(f"{param} nests deeper than {MAX_DEPTH} levels", param, "too_deep")


def check_turns(turns: Sequence[Turn], limits: ToolLimits) -> None:
    """Calls of a message differ in their ids and have objects as arguments; every result answers an earlier call.

    Ids may come again in later messages, as some clients count from 0 in each.
    """
    arguments = [call.function.arguments for turn in turns for call in turn.tool_calls]
    if too_many := excess(*(text.encode(errors="surrogatepass") for text in arguments)):
        raise ToolsRefused(f"messages has {too_many} in the arguments of its tool_calls", "messages", "too_many")
    called: set[str] = set()
    for index, turn in enumerate(turns):
        param = f"messages[{index}]"
        if len(turn.tool_calls) > limits.max_calls:
            message = f"{param} has {len(turn.tool_calls)} tool_calls, the limit is {limits.max_calls}"
            raise ToolsRefused(message, f"{param}.tool_calls", "too_many")
        if turn.tool_calls and turn.role != "assistant":
            raise ToolsRefused(f"{param}: only an assistant calls tools", f"{param}.tool_calls", "conflict")
        if turn.text is None and not turn.tool_calls:
            raise ToolsRefused(f"{param} has neither content nor tool_calls", f"{param}.content", "empty")
        ids: set[str] = set()
        for number, call in enumerate(turn.tool_calls):
            _check_call(call, f"{param}.tool_calls[{number}]", ids)
            ids.add(call.id)
        called |= ids
        if turn.role == "tool" and turn.tool_call_id is None:
            message = f"{param}.tool_call_id is missing: it names the call that a message of role tool answers"
            raise ToolsRefused(message, f"{param}.tool_call_id", "conflict")
        if turn.role != "tool" and turn.tool_call_id is not None:
            message = f"{param}: only a message of role tool has a tool_call_id, this one is of role {turn.role}"
            raise ToolsRefused(message, f"{param}.tool_call_id", "conflict")
        if turn.tool_call_id is not None and turn.tool_call_id not in called:
            message = f"{param} answers call {shown(turn.tool_call_id)}, which no message before it makes"
            raise ToolsRefused(message, f"{param}.tool_call_id", "unknown_call")


def _check_call(call: ToolCall, param: str, ids: set[str]) -> None:
    if not call.id or call.id in ids:
        what = "empty" if not call.id else f"{shown(call.id)} a second time"
        raise ToolsRefused(f"{param}.id is {what}", f"{param}.id", "empty" if not call.id else "duplicate_id")
    if not call.function.name:
        raise ToolsRefused(f"{param}.function.name is empty", f"{param}.function.name", "empty")
    param += ".function.arguments"
    if arguments_object(call.function.arguments) is None:
        raise ToolsRefused(f"{param} is {shown(call.function.arguments)}, must be a JSON object", param, "invalid_json")


def arguments_object(arguments: str) -> dict[str, Any] | None:
    """The object that a call's arguments are; None if they are none, or one that nests too deep."""
    try:
        found = msgspec.json.decode(arguments.strip() or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if is_deeper(found, MAX_DEPTH) else found


def is_deeper(value: Any, max_depth: int) -> bool:
    """Whether more than so many objects and lists are inside each other."""
    level = [value]
    for _ in range(max_depth + 1):
        outer = [one for one in level if isinstance(one, dict | list)]
        if not outer:
            return False
        level = [inner for one in outer for inner in (one.values() if isinstance(one, dict) else one)]
    return True
