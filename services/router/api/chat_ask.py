"""POST /v1/chat/completions: from the typed body to an `Ask`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from baton.services.grammar.errors import BadGrammar
from baton.services.router.api.ask import Ask, Blame, ChatPrompt, ToolPlan
from baton.services.router.api.bodies import ChatBody, ChatMessage
from baton.services.router.api.ranges import at_most, within
from baton.services.router.api.sampling import (
    asked_length,
    common_fields,
    output_length,
    prompt_logprobs,
    sampling_params,
)
from baton.services.router.api.structure import Structure, check_goes_with, check_size, structure_of
from baton.services.router.config import HttpConfig
from baton.services.router.errors import bad_grammar, invalid
from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.grammar import call_grammar, output_shape
from baton.services.router.tools.messages import template_messages
from baton.services.router.tools.types import NamedChoice, Tool, ToolUse, Turn
from baton.services.router.tools.validate import ToolLimits, check_turns, tool_use

NO_TOOLS = "this model's chat template has no tools"
ROLES = {"developer": "system"}  #: where templates know another name


def message_text(param: str, message: ChatMessage, config: HttpConfig) -> str | None:
    """Parts are joined without anything between them."""
    content = message.content
    if content is None:
        if message.role != "assistant" or not message.tool_calls:
            raise invalid(f"{param}.content is missing", f"{param}.content", "empty")
        return None
    if isinstance(content, str):
        return content
    at_most(f"{param}.content", len(content), config.max_content_parts, "parts")
    return "".join(part.text for part in content)


def turn_of(index: int, message: ChatMessage, config: HttpConfig) -> Turn:
    param = f"messages[{index}]"
    if message.tool_calls is not None and message.role != "assistant":
        raise invalid(f"{param} is of no assistant and has tool_calls", f"{param}.tool_calls", "conflict")
    text = message_text(param, message, config)
    role = ROLES.get(message.role, message.role)
    return Turn(role, text, tuple(message.tool_calls or ()), message.tool_call_id, message.name)


def chat_prompt(
    messages: list[ChatMessage], tools: Sequence[Tool], config: HttpConfig, *, has_tools: bool
) -> ChatPrompt:
    """What the chat template gets. `has_tools`: it knows calls and results."""
    if not messages:
        raise invalid("messages is empty", "messages", "empty")
    at_most("messages", len(messages), config.max_messages, "messages")
    turns = [turn_of(index, message, config) for index, message in enumerate(messages)]
    if not has_tools:
        refuse_tool_turns(turns)
    check_turns(turns, tool_limits(config))
    return template_messages(turns, tools)


def refuse_tool_turns(turns: Sequence[Turn]) -> None:
    """A template without tools would leave them out without a word."""
    for index, turn in enumerate(turns):
        if turn.tool_calls or turn.role == "tool":
            param = f"messages[{index}].{'tool_calls' if turn.tool_calls else 'role'}"
            raise invalid(f"{param}: {NO_TOOLS}", param, "unsupported_parameter")


def tool_limits(config: HttpConfig) -> ToolLimits:
    return ToolLimits(config.max_tools, config.max_tools_bytes, config.max_tools)


class Tooling(NamedTuple):
    """What a request's tools come to."""

    use: ToolUse
    plan: ToolPlan | None
    structure: Structure


def tooling(body: ChatBody, config: HttpConfig, tool_format: ToolFormat | None) -> Tooling:
    """The tools offered, how calls are found in the output, and what forces them."""
    use = tool_use(body.tools, body.tool_choice, body.parallel_tool_calls, tool_limits(config))
    if not use.tools:
        return Tooling(use, None, Structure())
    if tool_format is None:
        raise invalid(NO_TOOLS, "tools", "unsupported_parameter")
    plan = ToolPlan(tool_format, use.schemas(), use.is_parallel, isinstance(body.tool_choice, NamedChoice))
    if use.choice != "required":
        return Tooling(use, plan, Structure())
    check_goes_with(body, "tool_choice")
    try:
        schemas = {tool.function.name: tool.function.parameters or {} for tool in use.callable_tools}
        check_size(schemas, config, "what may be called")
        grammar = call_grammar(output_shape(tool_format, use))
    except BadGrammar as error:
        raise bad_grammar(str(error), "tools") from None
    return Tooling(use, plan, Structure(grammar, "tools"))


def chat_ask(body: ChatBody, vocab_size: int, config: HttpConfig, tool_format: ToolFormat | None = None) -> Ask:
    """`tool_format`: how the model writes tool calls; None if it has none."""
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("top_logprobs needs logprobs", "top_logprobs", "conflict")
    top = within("top_logprobs", body.top_logprobs, 0, 0, config.max_logprobs)
    tools = tooling(body, config, tool_format)
    structure = structure_of(body, config)
    if structure.grammar and tools.structure.grammar:
        raise invalid("tool_choice already says what the output is", structure.param, "conflict")
    structure = structure if structure.grammar else tools.structure
    num_scores = prompt_logprobs(body, config)
    return Ask(
        prompts=(chat_prompt(body.messages, tools.use.tools, config, has_tools=tool_format is not None),),
        blame=Blame("messages", asked_length(body)[1]),
        sampling=sampling_params(
            body,
            top if body.logprobs else -1,
            num_scores,
            structure.grammar,
            vocab_size,
            config,
        ),
        num_prompt_logprobs=num_scores,
        grammar_param=structure.param,
        tools=tools.plan,
        **output_length(body, config, least=1, default=None),
        **common_fields(body, config),
    )
