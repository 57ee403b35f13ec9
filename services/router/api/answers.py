"""Answers of the completion endpoints, typed: what is written is what `/openapi.json` says.

A field that is UNSET is left out; None is written as null.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all parts."""


class CachedTokens(Answer, frozen=True, kw_only=True):
    cached_tokens: int  #: prompt tokens whose KV was found


class Usage(Answer, frozen=True, kw_only=True):
    """Every prompt and every choice counts; what a stop string cut off does not."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class Timing(Answer, frozen=True, kw_only=True):
    """Milliseconds of the stages of a request's life; one that was not reached is left out."""

    queued_ms: float | UnsetType = UNSET  #: from its arrival until an executor was found
    prefill_ms: float | UnsetType = UNSET  #: until its first token
    transfer_ms: float | UnsetType = UNSET  #: until the first token of the decode executor, the KV's way included
    decode_ms: float | UnsetType = UNSET  #: until its end


class PromptScore(Answer, frozen=True, kw_only=True):
    """One token that could stand in a place of the prompt."""

    logprob: float
    rank: int | None  #: among all tokens, where it is one of the reported ones
    decoded_token: str


PromptScoreList = list[dict[str, PromptScore] | None]


class CompletionLogprobs(Answer, frozen=True, kw_only=True):
    """Four lists of one entry for each token shown. The first token of a prompt has no score."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(Answer, frozen=True, kw_only=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    prompt_logprobs: PromptScoreList | UnsetType = UNSET


class Completion(Answer, frozen=True, kw_only=True):
    """Of /v1/completions: the whole, and each event of a stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    timing: Timing | UnsetType = UNSET


class TokenScore(Answer, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int]


class ChosenTokenScore(TokenScore, frozen=True, kw_only=True):
    top_logprobs: list[TokenScore]


class ChatLogprobs(Answer, frozen=True, kw_only=True):
    content: list[ChosenTokenScore]
    refusal: None = None


class CalledFunction(Answer, frozen=True, kw_only=True):
    name: str
    arguments: str  #: JSON, as the model wrote it


class ToolCall(Answer, frozen=True, kw_only=True):
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class AssistantMessage(Answer, frozen=True, kw_only=True):
    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: list[ToolCall] | UnsetType = UNSET


Finish = Literal["stop", "length", "tool_calls"]


class ChatChoice(Answer, frozen=True, kw_only=True):
    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None
    finish_reason: Finish | None


class ChatCompletion(Answer, frozen=True, kw_only=True):
    """Of /v1/chat/completions, in one piece."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    timing: Timing | UnsetType = UNSET
    prompt_logprobs: PromptScoreList | UnsetType = UNSET


class FunctionDelta(Answer, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    arguments: str


class ToolCallDelta(Answer, frozen=True, kw_only=True):
    """The first one of a call has its id, type and name."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: FunctionDelta


class ChatDelta(Answer, frozen=True, kw_only=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChatChoiceDelta(Answer, frozen=True, kw_only=True):
    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: Finish | None


class ChatChunk(Answer, frozen=True, kw_only=True):
    """An event of a streamed /v1/chat/completions."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChoiceDelta]
    usage: Usage | UnsetType | None = UNSET
    timing: Timing | UnsetType = UNSET
