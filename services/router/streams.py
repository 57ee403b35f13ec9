"""What waits for the writer of one request: filled by the machine's commands, emptied by the HTTP handler.

Whoever fills never waits. What is kept is bounded by the output tokens that the request may have.
"""

from __future__ import annotations

import asyncio

from baton.core.errors import InvariantViolated
from baton.core.router.events import Deliver, End
from baton.services.router.errors import ApiError
from baton.services.router.text.choice_text import ChoiceText, Delta


class RequestStream:
    """Invariant: after `is_over` nothing more is delivered."""

    def __init__(self, request_id: int, num_prompt_tokens: int, choices: list[ChoiceText]) -> None:
        self.request_id = request_id
        self.num_prompt_tokens = num_prompt_tokens
        self.num_cached_tokens = 0
        self.num_attempts = 1
        self.choices = choices
        self.is_over = False
        self.failure: ApiError | None = None  #: why it is over, if not because all choices finished
        self._changed = asyncio.Event()

    @property
    def num_output_tokens(self) -> int:
        """Of all choices."""
        return sum(choice.num_tokens for choice in self.choices)

    def deliver(self, command: Deliver) -> int | None:
        """Take tokens; returns the offset at which a stop string ended the choice."""
        if not 0 <= command.choice < len(self.choices):
            raise InvariantViolated(f"tokens delivered for choice {command.choice} of {len(self.choices)}")
        offset = self.choices[command.choice].push(command.offset, command.tokens, command.finish)
        self._changed.set()
        return offset

    def end(self, command: End, failure: ApiError | None) -> None:
        """The machine's one end."""
        if failure is None and not all(choice.finish for choice in self.choices):
            raise InvariantViolated("a request ended well with a choice that has no finish")
        self.num_cached_tokens = command.num_cached_tokens
        self.num_attempts = command.num_attempts
        self.fail(failure)

    def fail(self, failure: ApiError | None) -> None:
        self.is_over = True
        self.failure = failure
        self._changed.set()

    async def changed(self) -> None:
        """Until something came since the last call; several things wake once."""
        await self._changed.wait()
        self._changed.clear()

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        return any(choice.has_more for choice in self.choices)

    def take(self, max_tokens: int) -> list[tuple[int, Delta]]:
        """What the choices have, as (index, delta), of at most so many tokens together."""
        deltas = []
        for index, choice in enumerate(self.choices):
            if max_tokens > 0 and (delta := choice.take(max_tokens)) is not None:
                deltas.append((index, delta))
                max_tokens -= len(delta.tokens)
        return deltas
