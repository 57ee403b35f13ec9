"""Answers of /v1/completions, streamed and whole."""

from __future__ import annotations

import sys

from baton.services.router.api.answers import Completion, CompletionChoice, CompletionLogprobs
from baton.services.router.api.envelope import Context
from baton.services.router.api.event_shape import EventShape
from baton.services.router.api.logprobs import completion_logprobs, echoed_logprobs, joined, prompt_logprobs
from baton.services.router.streams import Part
from baton.services.router.text.choice_text import Delta


class CompletionShape(EventShape):
    """One answer. An event is the same object as the whole, with what has come."""

    event_type = Completion

    def __init__(self, context: Context) -> None:
        self._shows_output = context.ask.max_tokens != 0
        super().__init__(context, is_plain=self._shows_output)

    def whole(self) -> bytes:
        choices = [self._choice(*item) for item in self._context.stream.take(sys.maxsize)]
        return self._encode(choices, self._context.usage(), self._context.timing())

    def _choices(self, index: int, delta: Delta) -> list[CompletionChoice]:
        return [self._choice(index, delta)]

    def _choice(self, index: int, delta: Delta) -> CompletionChoice:
        part = self._context.stream.part_of(index)
        if not self._shows_output:
            delta = Delta("", (), "length" if delta.finish else "", delta.is_first)
        shows_prompt = part.prompt.echoed is not None and delta.is_first
        return CompletionChoice(
            index=index,
            text=part.prompt.echoed.text + delta.text if part.prompt.echoed and shows_prompt else delta.text,
            logprobs=self._logprobs(part, delta, shows_prompt) if self._context.is_scored else None,
            finish_reason=delta.finish or None,  # type: ignore[arg-type]  # one of the two that a choice may have
            prompt_logprobs=prompt_logprobs(self._context.table, part, self._context.ask.num_prompt_logprobs),
        )

    def _logprobs(self, part: Part, delta: Delta, shows_prompt: bool) -> CompletionLogprobs | None:
        if self._context.ask.is_stream and not delta.tokens and not shows_prompt:
            return None
        table, echoed = self._context.table, part.prompt.echoed
        scores = completion_logprobs(table, delta.tokens, len(echoed.text) if echoed else 0)
        if not shows_prompt:
            return scores
        return joined(echoed_logprobs(table, part, self._context.ask.sampling.num_logprobs), scores)
