"""What waits for the writer of one answer: filled by the machine's commands, emptied by the HTTP handler.

An answer has one part for each prompt, a request of its own for the machine; its choices are numbered through.
Whoever fills never waits. What is kept is bounded by the output tokens that the request may have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from baton.core.errors import InvariantViolated
from baton.core.router.events import Deliver, End
from baton.core.wire.tokens import TokenLogprobs
from baton.services.router.api.answers import Timing
from baton.services.router.errors import ApiError
from baton.services.router.pace import Pace
from baton.services.router.text.choice_text import ChoiceText, Delta
from baton.services.router.text.tokenize import Prompt


class Part:
    """One prompt and its choices."""

    __slots__ = ("choices", "end", "prompt", "scores")

    def __init__(self, prompt: Prompt, choices: list[ChoiceText]) -> None:
        self.prompt = prompt
        self.choices = choices
        self.scores: tuple[TokenLogprobs, ...] | None = None  #: of the prompt's tokens but the first
        self.end: End | None = None

    @property
    def num_cached_tokens(self) -> int:
        return self.end.num_cached_tokens if self.end else 0


class RequestStream:
    """Invariant: after `is_over` nothing more is delivered."""

    def __init__(self, parts: dict[int, Part], waits_for_scores: bool = False, pace: Pace | None = None) -> None:
        self.parts = parts  #: by the machine's request id, in the order of the prompts
        self.choices = [choice for part in parts.values() for choice in part.choices]
        self.is_over = False
        self.failure: ApiError | None = None  #: why it is over, if not because all choices finished
        self.placement = ""  #: why the first prompt of which that is known was computed where it was
        self.num_prompt_tokens = sum(part.prompt.num_tokens for part in parts.values())
        self._part_of = [part for part in parts.values() for _ in part.choices]
        self._waits_for_scores = waits_for_scores
        self._changed = asyncio.Event()
        self._callback: Callable[[], None] | None = None
        self._is_callback_due = False
        self._called_at = float("-inf")
        self._pace = pace or Pace()

    @property
    def first_id(self) -> int:
        """The machine's id of the first part."""
        return next(iter(self.parts))

    @property
    def num_output_tokens(self) -> int:
        """Of all choices."""
        return sum(choice.num_tokens for choice in self.choices)

    @property
    def num_cached_tokens(self) -> int:
        """Of all prompts; known at the end."""
        return sum(part.num_cached_tokens for part in self.parts.values())

    @property
    def num_attempts(self) -> int:
        """Of the part that needed most."""
        return max((part.end.num_attempts for part in self.parts.values() if part.end), default=1)

    def timing(self) -> Timing:
        """How long the stages took, of the first part."""
        first = next(iter(self.parts.values()))
        return Timing(**(first.end.stages_ms if first.end else {}))

    def part_of(self, index: int) -> Part:
        """The part that this choice belongs to."""
        return self._part_of[index]

    def deliver(self, command: Deliver) -> int | None:
        """Take tokens; returns the offset at which a stop string ended the choice."""
        part, index = self.parts[command.request_id], command.choice
        if not 0 <= index < len(part.choices):
            raise InvariantViolated(f"tokens delivered for choice {index} of {len(part.choices)}")
        if command.prompt_scores is not None:
            part.scores = command.prompt_scores.unpack()
        self.placement = self.placement or command.placement
        offset = part.choices[index].push(command.offset, command.tokens, command.finish)
        if not self._is_callback_due:
            self._note_change()
        return offset

    def end(self, command: End, failure: ApiError | None) -> None:
        """The machine's one end of a part; the first failure ends all."""
        part = self.parts[command.request_id]
        if failure is None and not all(choice.finish for choice in part.choices):
            raise InvariantViolated("a request ended well with a choice that has no finish")
        part.end = command
        self.placement = self.placement or command.placement
        if failure is not None or all(other.end for other in self.parts.values()):
            self.fail(failure)

    def fail(self, failure: ApiError | None) -> None:
        self.is_over = True
        self.failure = failure
        self._called_at = float("-inf")  # nothing more comes that this could wait for
        self._is_callback_due = False
        self._note_change()

    def on_change(self, callback: Callable[[], None] | None) -> None:
        """Have the loop call it after each change, several together (see `Pace`); if something waits already, too."""
        self._callback = callback
        if callback is not None and not self._is_callback_due and (self._changed.is_set() or self.has_more):
            self._note_change()

    def _note_change(self) -> None:
        if self._callback is None:
            self._changed.set()
        else:
            self._is_callback_due = True
            self._pace.call(self._call_back, self._called_at + self._pace.interval_s)

    def _call_back(self) -> None:
        self._is_callback_due = False
        self._called_at = self._pace.clock()
        if self._callback is None:
            self._changed.set()
        else:
            self._callback()

    async def changed(self) -> None:
        """Until something came since the last call; several things wake once."""
        await self._changed.wait()
        self._changed.clear()

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        return any(choice.has_more and self._may_begin(index) for index, choice in enumerate(self.choices))

    def take(self, max_tokens: int) -> list[tuple[int, Delta]]:
        """What the choices have, as (index, delta), of at most so many tokens together."""
        deltas = []
        for index, choice in enumerate(self.choices):
            if max_tokens <= 0 or not self._may_begin(index):
                continue
            if (delta := choice.take(max_tokens)) is not None:
                deltas.append((index, delta))
                max_tokens -= len(delta.tokens)
        return deltas

    def _may_begin(self, index: int) -> bool:
        """A choice that shows its prompt's scores waits for them: they come with the first choice's first token."""
        return not self._waits_for_scores or self._part_of[index].scores is not None
