"""Answers of /v1/completions, streamed and whole."""

from __future__ import annotations

import sys

import msgspec
from msgspec import UNSET, UnsetType

from baton.services.router.api.answers import Completion, CompletionChoice, CompletionLogprobs, Timing, Usage
from baton.services.router.api.envelope import DONE, MARK, Context, PlainEvent, error_event, event, plain_event
from baton.services.router.api.logprobs import completion_logprobs, echoed_logprobs, joined, prompt_logprobs
from baton.services.router.streams import Part
from baton.services.router.text.choice_text import Delta


class CompletionShape:
    """One answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shows_output = context.ask.max_tokens != 0
        self._shows_scores = context.ask.scores_prompt and not context.ask.is_stream
        self._is_plain = self._shows_output and not context.is_scored and not context.ask.usage_in_every_event
        self._plain: dict[int, PlainEvent] = {}

    def part(self, deltas: list[tuple[int, Delta]]) -> bytes:
        return b"".join([self._event(index, delta) for index, delta in deltas])

    def _event(self, index: int, delta: Delta) -> bytes:
        if not self._is_plain or delta.is_first or delta.finish:
            return event(self._encode([self._choice(index, delta)], self._context.event_usage()))
        plain = self._plain.get(index)
        if plain is None:
            choice = self._choice(index, Delta(MARK, (), "", False))
            plain = self._plain[index] = plain_event(self._encode([choice], self._context.event_usage()))
        return plain.with_text(delta.text)

    def last_part(self) -> bytes:
        context = self._context
        if context.stream.failure is not None:
            return error_event(context.stream.failure)
        if not context.has_closing_event:
            return DONE
        return event(self._encode([], context.last_usage(), context.timing())) + DONE

    def whole(self) -> bytes:
        choices = [self._choice(*item) for item in self._context.stream.take(sys.maxsize)]
        return self._encode(choices, self._context.usage(), self._context.timing())

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
            prompt_logprobs=prompt_logprobs(self._context.table, part) if self._shows_scores else UNSET,
        )

    def _logprobs(self, part: Part, delta: Delta, shows_prompt: bool) -> CompletionLogprobs | None:
        if self._context.ask.is_stream and not delta.tokens and not shows_prompt:
            return None
        table, echoed = self._context.table, part.prompt.echoed
        scores = completion_logprobs(table, delta.tokens, len(echoed.text) if echoed else 0)
        if not shows_prompt:
            return scores
        return joined(echoed_logprobs(table, part, self._context.ask.sampling.num_logprobs), scores)

    def _encode(
        self, choices: list[CompletionChoice], usage: Usage | UnsetType | None, timing: Timing | UnsetType = UNSET
    ) -> bytes:
        context = self._context
        answer = Completion(
            id=context.reply_id,
            created=context.created_s,
            model=context.model,
            choices=choices,
            usage=usage,
            timing=timing,
        )
        return msgspec.json.encode(answer)
