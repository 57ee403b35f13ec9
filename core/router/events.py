"""Events and commands of the router's machine. What a session delivers is in `baton.core.events`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from baton.core.errors import Reason
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import PromptScores, SampledToken

# ---- events: from the HTTP side


class Arrive(msgspec.Struct, frozen=True, tag=40):
    """A validated, tokenized, hashed request of a client. `request_id` is unique in the router's life, below 2**31."""

    request_id: int
    prompt: bytes  #: int32[num_tokens]
    num_tokens: int
    root: bytes  #: 16 bytes
    hashes: bytes  #: 16 bytes for each full block
    sampling: SamplingParams
    num_choices: int
    timeout_s: float  #: the deadline is fixed here, once
    priority_class: int = 0
    tenant: str = ""


class ClientGone(msgspec.Struct, frozen=True, tag=41):
    """The client disconnected, or does not read (reason STALLED)."""

    request_id: int
    reason: Reason = Reason.ABORTED


class StopAt(msgspec.Struct, frozen=True, tag=42):
    """The text of this choice met a stop string: only output tokens `[0, offset)` count."""

    request_id: int
    choice: int
    offset: int


RouterEvent = Arrive | ClientGone | StopAt


# ---- commands: to the HTTP side


class Deliver(msgspec.Struct, frozen=True, gc=False, tag=50):
    """Tokens of one choice, contiguous: `offset` is where its last Deliver ended. Never after its finish."""

    request_id: int
    choice: int
    offset: int
    tokens: tuple[SampledToken, ...]
    finish: str = ""  #: "stop" or "length" with the last tokens of the choice
    prompt_scores: PromptScores | None = None  #: if asked for: with the first token of choice 0, whole, once
    placement: str = ""  #: a PlacementReason, with the first token of a choice, if the scheduler's word came before it


class DeliverTokens(msgspec.Struct, frozen=True, gc=False, tag=52):
    """One more token for each of many choices, as Delivers that bring nothing else: rows of request id, choice, offset,
    token, one after the other."""

    numbers: tuple[int, ...]

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """In order."""
        numbers = iter(self.numbers)
        return zip(numbers, numbers, numbers, numbers, strict=True)

    def delivers(self) -> Iterator[Deliver]:
        """The same, one by one."""
        for request_id, choice, offset, token in self.rows():
            yield Deliver(request_id, choice, offset, (SampledToken(choice, token),))


class End(msgspec.Struct, frozen=True, tag=51):
    """The one end of an accepted request. `error` is None when every choice has its finish."""

    request_id: int
    error: Reason | None
    numbers: dict[str, float] = {}
    num_cached_tokens: int = 0
    num_attempts: int = 1
    stages_ms: dict[str, float] = {}  #: how long each stage took that was reached
    placement: str = ""  #: a PlacementReason; empty if it was never placed


RouterCommand = Deliver | DeliverTokens | End
