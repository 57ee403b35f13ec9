"""A run's requests, planned before the first is sent: what each says, and when it is due."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from baton.core.metrics.facts import Phase

NEVER = -1.0


class Prefix(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens that several requests begin with: those of one group are the same."""

    group: int
    num_tokens: int


class BlockRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Block ids `[first, first + count)`: long prompts of a trace have thousands of blocks in a handful of runs."""

    first: int
    count: int


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request. What it says is made from numbers alone where no text is given, by whoever sends it."""

    index: int
    phase: Phase = Phase.MEASURED
    session: str = ""
    turn: int = 0
    at_s: float | None = None  #: due so long after its phase began; None: as soon as a place is free
    after: int | None = None  #: index of the request that must have ended first
    think_s: float = 0.0  #: and so long after its end
    text: str = ""  #: the prompt (of a chat: the user's next message), where the plan gives one
    messages_json: str = ""  #: or all messages of a chat, as the JSON array that is sent
    is_next_message: bool = False  #: what it says follows what was said and answered before in its session
    blocks: tuple[BlockRun, ...] = ()  #: or blocks of `block_size` tokens: the same id is the same tokens
    block_size: int = 0
    prefixes: tuple[Prefix, ...] = ()  #: or what it begins with, then tokens of its own
    num_input_tokens: int = 0  #: of this prompt or message in all, where the plan gives no text
    max_tokens: int
    cancel_after_s: float = NEVER  #: this side ends it so long after it was sent; NEVER: it does not

    @property
    def is_due_by_plan(self) -> bool:
        """Whether no answer and no place says when it is due."""
        return self.at_s is not None and self.after is None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All requests in the order of their indices, and how many may be open at once."""

    requests: tuple[PlannedRequest, ...]
    seed: int
    concurrency: int = 0  #: requests open at once; 0: as many as are due
    ramp_s: float = 0.0  #: until `concurrency` is reached, evenly
    num_left_out: int = 0  #: requests of a trace that are not here because their contexts are too long


def phases(requests: Iterable[PlannedRequest]) -> tuple[Phase, ...]:
    """Those that occur, warm-up first: the second begins when the first is over."""
    found = {request.phase for request in requests}
    return tuple(phase for phase in (Phase.WARM_UP, Phase.MEASURED) if phase in found)
