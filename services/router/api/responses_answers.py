"""Answers of /v1/responses, typed: the response, whole and in its events, and the items of its output."""

from __future__ import annotations

from typing import Any, Literal

from baton.services.router.api.answers import Answer, ChosenTokenScore
from baton.services.router.api.bodies import JsonObjectFormat, TextFormat
from baton.services.router.api.responses_bodies import FlatSchemaFormat, FunctionChoice, FunctionTool, ItemStatus

Status = Literal["in_progress", "completed", "incomplete", "failed"]
ErrorCode = Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]


class OutputText(Answer, frozen=True, kw_only=True, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Any]  #: none: the model cites nothing
    logprobs: list[ChosenTokenScore]  #: empty unless asked for


class OutputMessage(Answer, frozen=True, kw_only=True, tag_field="type", tag="message"):
    id: str
    status: ItemStatus
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]  #: one part; none yet where it has just begun


class OutputCall(Answer, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    id: str
    call_id: str  #: comes back with the result
    name: str
    arguments: str  #: JSON, as the model wrote it; its beginning where the status is "incomplete"
    status: ItemStatus


OutputItem = OutputMessage | OutputCall


class InputDetails(Answer, frozen=True, kw_only=True):
    cached_tokens: int  #: whose KV was found
    cache_write_tokens: int = 0  #: nobody pays for keeping KV, so nothing is counted


class OutputDetails(Answer, frozen=True, kw_only=True):
    reasoning_tokens: int = 0


class ResponseUsage(Answer, frozen=True, kw_only=True):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(Answer, frozen=True, kw_only=True):
    """`code` is one of OpenAI's; `reason` is the server's own, as other endpoints call it `code`."""

    code: ErrorCode
    message: str
    type: str
    param: str | None
    reason: str | None


class IncompleteDetails(Answer, frozen=True, kw_only=True):
    reason: Literal["max_output_tokens"]


class TextSetting(Answer, frozen=True, kw_only=True):
    format: TextFormat | JsonObjectFormat | FlatSchemaFormat
    verbosity: None = None


class ReasoningSetting(Answer, frozen=True, kw_only=True):
    effort: None = None
    summary: None = None


class Response(Answer, frozen=True, kw_only=True):
    """The request's own fields come back with what stands for those that it left out."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    completed_at: int | None = None  #: Unix time, where it is completed
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None = None
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: None = None
    prompt_cache_key: str | None
    reasoning: ReasoningSetting
    safety_identifier: str | None
    service_tier: Literal["default"] = "default"
    store: Literal[False] = False
    background: Literal[False] = False
    temperature: float
    text: TextSetting
    tool_choice: Literal["none", "auto", "required"] | FunctionChoice
    tools: list[FunctionTool]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None  #: at the end
    user: str | None
    metadata: dict[str, str]
