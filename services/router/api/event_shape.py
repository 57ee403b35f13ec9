"""What the streams of both completion endpoints have in common."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from baton.services.router.api.answers import ChatChunk, Completion, Timing, Usage
from baton.services.router.api.envelope import DONE, Context, error_event, event
from baton.services.router.text.choice_text import Delta

MARK = "\0text\0"  #: stands for the text of an event that is encoded around it


class PlainEvent(NamedTuple):
    """An event that differs from others of its choice by its text alone: all but that is encoded once."""

    head: bytes
    tail: bytes

    def with_text(self, text: str) -> bytes:
        return self.head + msgspec.json.encode(text) + self.tail


class EventShape:
    """Events of one streamed answer. `is_plain`: most of them have nothing but text that changes."""

    event_type: ClassVar[type[Completion] | type[ChatChunk]]

    def __init__(self, context: Context, *, is_plain: bool) -> None:
        self._context = context
        self._is_plain = is_plain and not context.is_scored and not context.ask.usage_in_every_event
        self._plain: dict[int, PlainEvent] = {}

    def part(self, deltas: list[tuple[int, Delta]]) -> bytes:
        """Events for what has come, to be written at once."""
        return b"".join([self._events(index, delta) for index, delta in deltas])

    def last_part(self) -> bytes:
        """What ends a stream."""
        context = self._context
        if context.stream.failure is not None:
            return error_event(context.stream.failure)
        if not context.has_closing_event:
            return DONE
        return event(self._encode([], context.last_usage(), context.timing())) + DONE

    def _events(self, index: int, delta: Delta) -> bytes:
        if not self._is_plain or delta.is_first or delta.finish:
            total = self._context.event_usage()
            return b"".join([event(self._encode([choice], total)) for choice in self._choices(index, delta)])
        plain = self._plain.get(index)
        if plain is None:
            plain = self._plain[index] = self._encode_around_text(index)
        return plain.with_text(delta.text)

    def _choices(self, index: int, delta: Delta) -> list[Any]:
        """The choices of one delta, one for each event."""
        raise NotImplementedError

    def _encode_around_text(self, index: int) -> PlainEvent:
        choice = self._choices(index, Delta(MARK, (), "", False))[0]
        head, tail = event(self._encode([choice], self._context.event_usage())).split(msgspec.json.encode(MARK))
        return PlainEvent(head, tail)

    def _encode(self, choices: list[Any], usage: Usage | UnsetType | None, timing: Timing | UnsetType = UNSET) -> bytes:
        context = self._context
        answer = self.event_type(
            id=context.reply_id,
            created=context.created_s,
            model=context.model,
            choices=choices,
            usage=usage,
            timing=timing,
        )
        return msgspec.json.encode(answer)
