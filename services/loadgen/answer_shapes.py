"""The parts of OpenAI's answers that a measurement reads, whole and as chunks of a stream."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 24)]  #: of tokens; what no answer has would be no figure either


class Shape(msgspec.Struct, gc=False):
    """Skips the fields that it does not name."""


class InputDetails(Shape):
    cached_tokens: Count | None = None


class UsageBody(Shape):
    """Of chat and completions, or by the other two names, of responses."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: InputDetails | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: InputDetails | None = None


class ErrorBody(Shape):
    """What every answer may be instead."""

    id: str | None = None
    object: str | None = None
    error: dict[str, Any] | str | None = None
    message: str | None = None


class Function(Shape):
    name: str | None = None
    arguments: str | None = None


class ToolCall(Shape):
    function: Function | None = None


class ChatDelta(Shape):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class ChatChoice(Shape):
    delta: ChatDelta | None = None  #: streamed
    message: ChatDelta | None = None  #: whole
    finish_reason: str | None = None


class ChatAnswer(ErrorBody):
    choices: list[ChatChoice] | None = None
    usage: UsageBody | None = None


class CompletionChoice(Shape):
    text: str | None = None
    finish_reason: str | None = None


class CompletionAnswer(ErrorBody):
    choices: list[CompletionChoice] | None = None
    usage: UsageBody | None = None


class ResponsePart(Shape):
    text: str | None = None


class ResponseItem(Shape):
    content: list[ResponsePart] | None = None
    arguments: str | None = None


class ResponseAnswer(ErrorBody):
    status: str | None = None
    output: list[ResponseItem] = []
    usage: UsageBody | None = None


class ResponseEvent(ErrorBody):
    type: str = ""
    delta: str = ""
    response: ResponseAnswer | None = None
