"""Answers of /v1/chat/completions, streamed and whole."""

from __future__ import annotations

import sys

import msgspec
from msgspec import UNSET, UnsetType

from baton.services.router.api.answers import (
    AssistantMessage,
    ChatChoice,
    ChatChoiceDelta,
    ChatChunk,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    Timing,
    Usage,
)
from baton.services.router.api.envelope import DONE, MARK, Context, PlainEvent, error_event, event, plain_event
from baton.services.router.api.logprobs import chat_logprobs, prompt_logprobs
from baton.services.router.api.tool_calls import ChoiceCalls
from baton.services.router.text.choice_text import Delta

BEGIN = ChatDelta(role="assistant", content="")
NOTHING = ChatDelta()


class ChatShape:
    """One answer; with tools, each choice has its own parser."""

    def __init__(self, context: Context) -> None:
        self._context = context
        plan = context.ask.tools
        self._calls = None if plan is None else [ChoiceCalls(plan) for _ in context.stream.choices]
        self._is_plain = plan is None and not context.is_scored and not context.ask.usage_in_every_event
        self._plain: dict[int, PlainEvent] = {}

    def part(self, deltas: list[tuple[int, Delta]]) -> bytes:
        return b"".join([self._events(index, delta) for index, delta in deltas])

    def _events(self, index: int, delta: Delta) -> bytes:
        total = self._context.event_usage()
        if not self._is_plain or delta.is_first or delta.finish:
            return b"".join([event(self._encode([choice], total)) for choice in self._deltas(index, delta)])
        plain = self._plain.get(index)
        if plain is None:
            choice = self._deltas(index, Delta(MARK, (), "", False))[0]
            plain = self._plain[index] = plain_event(self._encode([choice], total))
        return plain.with_text(delta.text)

    def last_part(self) -> bytes:
        context = self._context
        if context.stream.failure is not None:
            return error_event(context.stream.failure)
        if not context.has_closing_event:
            return DONE
        return event(self._encode([], context.last_usage(), context.timing())) + DONE

    def whole(self) -> bytes:
        context = self._context
        ask, stream = context.ask, context.stream
        answer = ChatCompletion(
            id=context.reply_id,
            created=context.created_s,
            model=context.model,
            choices=[self._choice(*item) for item in stream.take(sys.maxsize)],
            usage=context.usage(),
            timing=context.timing(),
            prompt_logprobs=prompt_logprobs(context.table, stream.part_of(0)) if ask.scores_prompt else UNSET,
        )
        return msgspec.json.encode(answer)

    def _deltas(self, index: int, delta: Delta) -> list[ChatChoiceDelta]:
        """The events of one choice: its role first, then text and calls; scores and finish are in the last one."""
        parts = [ChatDelta(content=delta.text)] if delta.text else []
        finish = delta.finish
        if self._calls is not None:
            parts = self._calls[index].push(delta.text, is_last=bool(finish))
            finish = self._calls[index].finish(finish)
        if delta.is_first:
            parts.insert(0, BEGIN)
        elif not parts:
            parts.append(NOTHING)
        scores = self._logprobs(delta) if delta.tokens else None
        choices = [ChatChoiceDelta(index=index, delta=part, logprobs=None, finish_reason=None) for part in parts[:-1]]
        reason = finish or None
        choices.append(ChatChoiceDelta(index=index, delta=parts[-1], logprobs=scores, finish_reason=reason))  # type: ignore[arg-type]
        return choices

    def _choice(self, index: int, delta: Delta) -> ChatChoice:
        message, finish = AssistantMessage(content=delta.text), delta.finish
        if self._calls is not None:
            calls = self._calls[index]
            calls.push(delta.text, is_last=True)
            message, finish = calls.message(), calls.finish(finish)
        reason = finish or None
        return ChatChoice(index=index, message=message, logprobs=self._logprobs(delta), finish_reason=reason)  # type: ignore[arg-type]

    def _logprobs(self, delta: Delta) -> ChatLogprobs | None:
        return chat_logprobs(self._context.table, delta.tokens) if self._context.is_scored else None

    def _encode(
        self, choices: list[ChatChoiceDelta], usage: Usage | UnsetType | None, timing: Timing | UnsetType = UNSET
    ) -> bytes:
        context = self._context
        chunk = ChatChunk(
            id=context.reply_id,
            created=context.created_s,
            model=context.model,
            choices=choices,
            usage=usage,
            timing=timing,
        )
        return msgspec.json.encode(chunk)
