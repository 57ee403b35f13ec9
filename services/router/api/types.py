"""Bodies of the two completion endpoints, typed. A field that is not here is refused by name, never ignored.

`null` means the default, as clients send it. Ranges are checked in `validate`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from baton.core.errors import InvariantViolated


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Only free text; grammars are refused."""

    type: Literal["text"]


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
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None  #: goes to the access log
    cache_salt: str | None = None  #: prompts share cached blocks only under the same salt
    priority: int | None = None  #: 0 is the most urgent
    timeout: float | None = None  #: seconds until the request is ended


class CompletionBody(CommonBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/completions."""

    prompt: str | list[int | str | list[int]]  #: one text or one list of token ids, either may be alone in a list
    logprobs: int | None = None  #: alternatives for each token
    echo: bool | None = None  #: only false
    best_of: int | None = None  #: only equal to `n`
    suffix: str | None = None  #: only empty


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: str | list[TextPart]


class ChatBody(CommonBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A body whose every field is within its range. What depends on the prompt's length is still open."""

    endpoint: Literal["completion", "chat"]
    text: str | None = None  #: exactly one of these three is given
    token_ids: bytes | None = None  #: int32[num_tokens]
    messages: tuple[tuple[str, str], ...] | None = None  #: (role, text)
    max_tokens: int | None  #: None: as many as there is room for
    max_tokens_default: int | None  #: what None is capped at
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int | None
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    ignore_eos: bool
    num_choices: int
    logit_bias: tuple[tuple[int, float], ...]
    num_logprobs: int
    is_stream: bool
    include_usage: bool
    user: str
    cache_salt: str
    priority_class: int
    timeout_s: float

    @property
    def length_param(self) -> str:
        """The field to blame when the output does not fit."""
        return "max_tokens" if self.endpoint == "completion" else "max_completion_tokens"

    @property
    def prompt_param(self) -> str:
        """The field to blame for the prompt."""
        return "prompt" if self.endpoint == "completion" else "messages"

    def num_text_bytes(self) -> int:
        """UTF-8 bytes that the tokenizer has to read, template not counted."""
        if self.messages is not None:
            return sum(len(text.encode()) for _, text in self.messages)
        if self.text is None:
            raise InvariantViolated("token ids have no text")
        return len(self.text.encode())
