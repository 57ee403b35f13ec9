"""Answers of /v1/chat/completions, streamed and whole."""

from __future__ import annotations

import sys

import msgspec

from baton.services.router.api.answers import (
    AssistantMessage,
    ChatChoice,
    ChatChoiceDelta,
    ChatChunk,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
)
from baton.services.router.api.envelope import Context
from baton.services.router.api.event_shape import EventShape
from baton.services.router.api.logprobs import chat_logprobs, prompt_logprobs
from baton.services.router.api.tool_calls import ChoiceCalls
from baton.services.router.text.choice_text import Delta

BEGIN = ChatDelta(role="assistant", content="")
NOTHING = ChatDelta()


class ChatShape(EventShape):
    """One answer; with tools, each choice has its own parser."""

    event_type = ChatChunk

    def __init__(self, context: Context) -> None:
        plan = context.ask.tools
        super().__init__(context, is_plain=plan is None)
        self._calls = None if plan is None else [ChoiceCalls(plan) for _ in context.stream.choices]

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
            prompt_logprobs=prompt_logprobs(context.table, stream.part_of(0), ask.num_prompt_logprobs),
        )
        return msgspec.json.encode(answer)

    def _choices(self, index: int, delta: Delta) -> list[ChatChoiceDelta]:
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
