"""Bodies of the two completion endpoints, typed. A field that is not here is refused by name, never ignored.

`null` means the default, as clients send it. A field of type None is one of OpenAI's API that is not served, and that
clients who leave it out write as null. Ranges are checked in `completion_ask` and `chat_ask`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from baton.services.router.tools.types import Tool, ToolCall, ToolChoice


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None  #: a last event with the usage
    continuous_usage_stats: bool | None = None  #: the usage so far in every event
    include_obfuscation: Literal[False] | None = None  #: events carry nothing but the answer


class TextFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """Free text."""


class JsonObjectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="json_object"):
    """Any JSON object."""


class JsonSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    schema: dict[str, Any] | None = None  #: without it any JSON object
    description: str | None = None
    strict: bool | None = None  #: the output always matches the schema


class JsonSchemaFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="json_schema"):
    """JSON that matches a schema."""

    json_schema: JsonSchema


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


class CommonBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both endpoints take."""

    model: str
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None  #: 0 or −1: all
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    n: int | None = None
    logit_bias: dict[int, float] | None = None
    prompt_logprobs: int | None = None  #: alternatives for each token of the prompt; not in a stream
    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | str | None = None  #: a JSON schema
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None  #: in Lark's notation
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    timing: bool | None = None  #: the answer says how long its stages took
    user: str | None = None  #: goes to the access log
    cache_salt: str | None = None  #: prompts share cached blocks only under the same salt
    priority: int | None = None  #: 0 is the most urgent
    timeout: float | None = None  #: seconds until the request is ended


class CompletionBody(CommonBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/completions."""

    prompt: str | list[int | str | list[int]]  #: a text, token ids, or a list of several of one kind
    logprobs: int | None = None  #: alternatives for each token
    echo: bool | None = None  #: the prompt goes before the output, and with `logprobs` its scores
    best_of: int | None = None  #: only equal to `n`
    suffix: str | None = None  #: only empty


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: None = None


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message; an assistant's may come back as this API or another wrote it, so its empty fields are taken."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    audio: None = None
    function_call: None = None
    annotations: list[Any] | None = None


class ChatBody(CommonBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    store: Literal[False] | None = None  #: nothing is stored
    metadata: dict[str, str] | None = None  #: belongs to stored answers: taken and left alone
    service_tier: Literal["auto", "default"] | None = None  #: there is one
    modalities: list[Literal["text"]] | None = None
    prompt_cache_key: str | None = None  #: where equal prompts meet is decided by their blocks
    safety_identifier: str | None = None  #: as `user`
    audio: None = None
    function_call: None = None
    functions: None = None
    moderation: None = None
    prediction: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    reasoning_effort: None = None
    verbosity: None = None
    web_search_options: None = None
