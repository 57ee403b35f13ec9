"""What all shapes of answers have in common, and the frame of server-sent events."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import UNSET, UnsetType

from baton.services.router.api.answers import CachedTokens, Timing, Usage
from baton.services.router.api.ask import Ask
from baton.services.router.errors import ApiError
from baton.services.router.streams import RequestStream
from baton.services.router.text.choice_text import Delta
from baton.services.router.text.token_table import TokenTable

DONE = b"data: [DONE]\n\n"


class Shape(Protocol):
    """How one answer is written. `part` and `last_part` make a stream, `whole` an answer in one piece."""

    def part(self, deltas: list[tuple[int, Delta]]) -> bytes:
        """Events for what has come, to be written at once."""

    def last_part(self) -> bytes:
        """What ends a stream."""

    def whole(self) -> bytes:
        """The answer of a request that is over; takes what the choices have."""


class Context(NamedTuple):
    """What a shape is made from."""

    ask: Ask
    stream: RequestStream
    table: TokenTable
    reply_id: str
    created_s: int  #: Unix time
    model: str  #: its name in the answer

    @property
    def is_scored(self) -> bool:
        """Whether output tokens have log-probabilities."""
        return self.ask.sampling.num_logprobs >= 0

    def usage(self) -> Usage:
        """So far."""
        stream = self.stream
        num_output_tokens = 0 if self.ask.max_tokens == 0 else stream.num_output_tokens
        return Usage(
            prompt_tokens=stream.num_prompt_tokens,
            completion_tokens=num_output_tokens,
            total_tokens=stream.num_prompt_tokens + num_output_tokens,
            prompt_tokens_details=CachedTokens(cached_tokens=stream.num_cached_tokens),
        )

    def event_usage(self) -> Usage | UnsetType | None:
        """What an event that is not the last says of it."""
        if self.ask.usage_in_every_event:
            return self.usage()
        return None if self.ask.include_usage else UNSET

    def last_usage(self) -> Usage | UnsetType:
        """What the last event says of it."""
        return self.usage() if self.ask.include_usage else UNSET

    def timing(self) -> Timing | UnsetType:
        """Where it was asked for, at the end."""
        return self.stream.timing() if self.ask.include_timing else UNSET

    @property
    def has_closing_event(self) -> bool:
        """Whether a stream ends with an event that has no choices."""
        return self.ask.include_usage or self.ask.include_timing


def event(body: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + body + b"\n\n"


def error_event(error: ApiError) -> bytes:
    """The last event of a stream that failed: no `[DONE]` follows it, so that no client can take it for complete."""
    return event(error.body())
