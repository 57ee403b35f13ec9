"""Answers as JSON, streamed and whole, in the shapes of the two endpoints."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import msgspec

from baton.services.router.api.logprobs import chat_logprobs, completion_logprobs
from baton.services.router.api.types import Ask
from baton.services.router.errors import ApiError
from baton.services.router.streams import RequestStream
from baton.services.router.text.choice_text import Delta
from baton.services.router.text.token_table import TokenTable

DONE = b"data: [DONE]\n\n"
PREFIX = {"completion": "cmpl", "chat": "chatcmpl"}
WHOLE = {"completion": "text_completion", "chat": "chat.completion"}
PART = {"completion": "text_completion", "chat": "chat.completion.chunk"}


def event(body: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + body + b"\n\n"


def error_event(error: ApiError) -> bytes:
    """The last event of a stream that failed: no `[DONE]` follows it, so that no client can take it for complete."""
    return event(error.body())


def usage(stream: RequestStream) -> dict[str, Any]:
    """Every choice counts; what a stop string cut off does not."""
    num_output_tokens = stream.num_output_tokens
    return {
        "prompt_tokens": stream.num_prompt_tokens,
        "completion_tokens": num_output_tokens,
        "total_tokens": stream.num_prompt_tokens + num_output_tokens,
        "prompt_tokens_details": {"cached_tokens": stream.num_cached_tokens},
    }


class ReplyShape(NamedTuple):
    """What all parts of one answer have in common."""

    ask: Ask
    reply_id: str
    created_s: int  #: Unix time
    model: str
    table: TokenTable

    def part(self, deltas: list[tuple[int, Delta]]) -> bytes:
        """Events for what has come, to be written at once."""
        return b"".join(self._events(index, delta) for index, delta in deltas)

    def last_part(self, stream: RequestStream) -> bytes:
        """What ends a stream: usage where the client asked for it and `[DONE]`, or the error event."""
        if stream.failure is not None:
            return error_event(stream.failure)
        return (event(self._encode(PART, [], usage(stream))) if self.ask.include_usage else b"") + DONE

    def whole(self, stream: RequestStream) -> bytes:
        """The answer of a request that is over; takes what the choices have."""
        deltas = stream.take(sys.maxsize)
        is_chat = self.ask.endpoint == "chat"
        choices = [self._chat_whole(*item) if is_chat else self._completion(*item) for item in deltas]
        return self._encode(WHOLE, choices, usage(stream))

    def _events(self, index: int, delta: Delta) -> bytes:
        total = None if self.ask.include_usage else msgspec.UNSET
        if self.ask.endpoint == "completion":
            return event(self._encode(PART, [self._completion(index, delta)], total))
        choice = self._closing(index, delta) | {"delta": {"content": delta.text} if delta.text else {}}
        chunk = event(self._encode(PART, [choice], total))
        if not delta.is_first:
            return chunk
        begin = {"role": "assistant", "content": ""}
        first = {"index": index, "delta": begin, "logprobs": None, "finish_reason": None}
        return event(self._encode(PART, [first], total)) + chunk

    def _completion(self, index: int, delta: Delta) -> dict[str, Any]:
        return self._closing(index, delta) | {"text": delta.text}

    def _chat_whole(self, index: int, delta: Delta) -> dict[str, Any]:
        return self._closing(index, delta) | {"message": {"role": "assistant", "content": delta.text, "refusal": None}}

    def _closing(self, index: int, delta: Delta) -> dict[str, Any]:
        """Index, log-probabilities and finish of a choice."""
        logprobs = None
        if self.ask.num_logprobs >= 0 and (delta.tokens or not self.ask.is_stream):
            shape = chat_logprobs if self.ask.endpoint == "chat" else completion_logprobs
            logprobs = shape(self.table, delta.tokens)
        return {"index": index, "logprobs": logprobs, "finish_reason": delta.finish or None}

    def _encode(self, kinds: dict[str, str], choices: list[dict[str, Any]], total: Any) -> bytes:
        reply = Reply(self.reply_id, kinds[self.ask.endpoint], self.created_s, self.model, choices, total)
        return msgspec.json.encode(reply)


class Reply(msgspec.Struct, frozen=True):
    """The envelope of every part. `usage` is left out unless given; None is written as null."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: Any = msgspec.UNSET
