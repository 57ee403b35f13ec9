"""POST /v1/responses: the same request as a chat in other words, so it becomes a chat's body and then an `Ask`.

Everything about values is decided by `chat_ask`; here are only what chats do not have, and the names in errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from baton.services.router.api.ask import Ask, Blame
from baton.services.router.api.bodies import ChatBody, JsonSchema, JsonSchemaFormat, ResponseFormat
from baton.services.router.api.chat_ask import chat_ask
from baton.services.router.api.ranges import at_most
from baton.services.router.api.responses_bodies import FlatSchemaFormat, FunctionChoice, FunctionTool, ResponsesBody
from baton.services.router.api.responses_input import Conversation, conversation_of
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, invalid
from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.errors import ToolsRefused
from baton.services.router.tools.types import FunctionName, FunctionSpec, NamedChoice, Tool, ToolChoice

MAX_METADATA, MAX_KEY_CHARS, MAX_VALUE_CHARS = 16, 64, 512  #: as OpenAI's API has them
MAX_ID_CHARS = 256
NOT_STORED = "answers are not stored, the whole conversation belongs into input"
BLAME = Blame("input", "max_output_tokens")
#: what a chat calls its fields, at the start of a text, and what they are called here
NAMES = (
    (re.compile(r"messages\b(?!\[)"), "input"),
    (re.compile(r"max_completion_tokens\b"), "max_output_tokens"),
    (re.compile(r"response_format\b"), "text.format"),
    (re.compile(r"(tools\[\d+\]|tool_choice)\.function\b"), r"\1"),
)


def responses_ask(body: ResponsesBody, vocab_size: int, config: HttpConfig, tool_format: ToolFormat | None) -> Ask:
    """`tool_format`: how the model writes tool calls; None if it has none."""
    for param, why in refusals(body):
        raise invalid(f"{param} is not supported: {why}", param, "unsupported_parameter")
    check_strings(body)
    if body.top_logprobs is not None and not body.has_logprobs:
        raise invalid("top_logprobs needs message.output_text.logprobs in include", "top_logprobs", "conflict")
    if body.stream_options is not None and not body.stream:
        raise invalid("stream_options needs stream", "stream_options", "conflict")
    conversation = conversation_of(body, config)
    try:
        ask = chat_ask(chat_body(body, conversation), vocab_size, config, tool_format)
    except ToolsRefused as refused:
        raise renamed(invalid(str(refused), refused.param, refused.code), conversation) from None
    except ApiError as error:
        raise renamed(error, conversation) from None
    return msgspec.structs.replace(ask, blame=BLAME, grammar_param=field_here(ask.grammar_param, conversation))


def refusals(body: ResponsesBody) -> Iterator[tuple[str, str]]:
    """Fields with a value that asks for what is not here, and why it is not."""
    if body.store:
        yield "store", "true is asked for and answers are not stored"
    for name in ("previous_response_id", "conversation"):
        if getattr(body, name) is not None:
            yield name, NOT_STORED
    if body.background:
        yield "background", "an answer lives as long as its connection"
    if body.prompt is not None:
        yield "prompt", "there are no stored templates of prompts"
    if body.truncation == "auto":
        yield "truncation", "auto is asked for and nothing is dropped from an input that is too long"
    if body.max_tool_calls is not None:
        yield "max_tool_calls", "it limits built-in tools and there are none"
    if body.text is not None and body.text.verbosity is not None:
        yield "text.verbosity", "the model has no such setting"
    if body.reasoning is not None:
        for name in ("effort", "summary"):
            if getattr(body.reasoning, name) is not None:
                yield f"reasoning.{name}", "the model has no such setting"
    if body.stream_options is not None and body.stream_options.include_obfuscation:
        yield "stream_options.include_obfuscation", "events carry nothing but the answer"


def check_strings(body: ResponsesBody) -> None:
    """What the answer says again is short."""
    for name in ("safety_identifier", "prompt_cache_key"):
        at_most(name, len(getattr(body, name) or ""), MAX_ID_CHARS, "characters")
    pairs = body.metadata or {}
    at_most("metadata", len(pairs), MAX_METADATA, "pairs")
    for key, value in pairs.items():
        at_most("metadata", len(key), MAX_KEY_CHARS, "characters in a key")
        at_most("metadata", len(value), MAX_VALUE_CHARS, "characters in a value")


def chat_body(body: ResponsesBody, conversation: Conversation) -> ChatBody:
    """The same request as a chat."""
    return ChatBody(
        model=body.model,
        messages=conversation.messages,
        max_completion_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        logprobs=body.has_logprobs,
        top_logprobs=body.top_logprobs,
        tools=None if body.tools is None else [as_tool(tool) for tool in body.tools],
        tool_choice=tool_choice(body),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=response_format(body),
        stream=body.stream,
        user=body.user,
        seed=body.seed,
        cache_salt=body.cache_salt,
        priority=body.priority,
        timeout=body.timeout,
    )


def as_tool(tool: FunctionTool) -> Tool:
    return Tool("function", FunctionSpec(tool.name, tool.description, tool.parameters, tool.strict))


def tool_choice(body: ResponsesBody) -> ToolChoice | None:
    choice = body.tool_choice
    return NamedChoice("function", FunctionName(choice.name)) if isinstance(choice, FunctionChoice) else choice


def response_format(body: ResponsesBody) -> ResponseFormat | None:
    wanted = None if body.text is None else body.text.format
    if isinstance(wanted, FlatSchemaFormat):
        return JsonSchemaFormat(JsonSchema(wanted.name, wanted.schema, wanted.description, wanted.strict))
    return wanted


def renamed(error: ApiError, conversation: Conversation) -> ApiError:
    """The same error with this endpoint's names of fields."""
    param = None if error.param is None else field_here(error.param, conversation)
    return ApiError(
        error.status, field_here(error.message, conversation), kind=error.kind, param=param, code=error.code
    )


def field_here(text: str, conversation: Conversation) -> str:
    """`text`, which may begin with a chat's name of a field, with this endpoint's."""
    for pattern, name in NAMES:
        if found := pattern.match(text):
            return found.expand(name) + text[found.end() :]
    return conversation.named(text)
