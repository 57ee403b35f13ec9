"""Body of /v1/responses, typed as OpenAI's API has it. A field that is not here is refused by name, never ignored.

`null` means the default. What OpenAI's API has and this one does not, but clients send with a value that changes
nothing, is typed here and refused by `responses_ask` with any other value; a field of type None takes only null.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from baton.services.router.api.bodies import JsonObjectFormat, TextFormat

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="input_text"):
    text: str
    prompt_cache_breakpoint: None = None


class PlainText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str


class OutputText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="output_text"):
    """As an answer had it; what belongs to the text is taken and left alone."""

    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


TextPart = InputText | PlainText | OutputText


class MessageItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="message"):
    """One message; its type may be missing. An answer's comes back with its id and status."""

    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[TextPart]
    id: str | None = None
    status: ItemStatus | None = None
    phase: None = None


class CallItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="function_call"):
    """A call that the model made."""

    call_id: str
    name: str
    arguments: str  #: JSON of an object; empty counts as `{}`
    id: str | None = None
    status: ItemStatus | None = None
    caller: None = None
    namespace: None = None
    is_async: None = msgspec.field(default=None, name="async")


class ResultItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="function_call_output"):
    """What a call that came before returned."""

    call_id: str
    output: str | list[TextPart]
    id: str | None = None
    status: ItemStatus | None = None
    caller: None = None
    name: None = None
    namespace: None = None


InputItem = MessageItem | CallItem | ResultItem


class FunctionTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """A function that the model may call. `parameters` is a JSON schema; without it there are no arguments."""

    name: str
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None
    # the answer, which says the tools again, has them only where the request did
    allowed_callers: UnsetType | None = UNSET
    defer_loading: UnsetType | None = UNSET
    is_async: UnsetType | None = msgspec.field(default=UNSET, name="async")
    output_schema: UnsetType | None = UNSET


class FunctionChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """The output is a call of this function."""

    name: str


class FlatSchemaFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="json_schema"):
    """JSON that matches a schema."""

    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None  #: the output always matches the schema


class TextConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: TextFormat | JsonObjectFormat | FlatSchemaFormat | None = None
    verbosity: str | None = None


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    effort: str | None = None
    summary: str | None = None
    context: None = None
    generate_summary: None = None
    mode: None = None


class ResponseStreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_obfuscation: bool | None = None
    include_usage: bool | None = None  #: of chats, and sent here too by aiperf: the last event has the usage anyway


class ResponsesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/responses."""

    model: str
    input: str | list[msgspec.Raw]  #: a user's message, or items: each is read on its own, as its type may be missing
    instructions: str | None = None  #: a system message before all others
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    include: list[Literal["message.output_text.logprobs"]] | None = None
    top_logprobs: int | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | FunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    user: str | None = None  #: goes to the access log
    metadata: dict[str, str] | None = None  #: the answer says it again
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    background: bool | None = None
    prompt: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: Literal["auto", "default"] | None = None  #: there is one
    reasoning: Reasoning | None = None
    max_tool_calls: int | None = None
    safety_identifier: str | None = None  #: as `user`
    prompt_cache_key: str | None = None  #: where equal prompts meet is decided by their blocks
    access_programs: None = None
    background_options: None = None
    context_management: None = None
    image: None = None
    moderation: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    seed: int | None = None
    cache_salt: str | None = None  #: prompts share cached blocks only under the same salt
    priority: int | None = None  #: 0 is the most urgent
    timeout: float | None = None  #: seconds until the request is ended

    @property
    def has_logprobs(self) -> bool:
        """Whether the output's tokens get log-probabilities."""
        return bool(self.include)
