"""What the gate remembers between two decisions about prompts (see `gate`): marks of the demand, no decisions.

Everything here is of prompts in the queue and leaves with them, or is the newest of its kind; nothing grows (C11).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

from baton.core.errors import Reason

GAP_MEMORY = 1 / 8  #: weight of the newest time between two arrivals
MAX_GAP_S = 10.0  #: what counts of one at most
ITL_MEMORY = 1 / 64  #: weight of the newest time between two decode steps


class Look(NamedTuple):
    """What a plan of prompts that was not committed has shown. Stands as long as demand is the same."""

    version: int  #: of the demand
    num_tokens: int
    num_prompts: int
    age_at: float  #: when the first of its prompts has waited as long as it may
    partial_at: float  #: when the rest of a prompt has been kept back as long as it may; inf: none is a rest
    has_last_token: bool  #: one of them computes its last token alone: it needs no company
    rests_since: float  #: since when the newest of its rests waits, if all are rests; inf: one of them is new

    @property
    def has_partial(self) -> bool:
        return self.partial_at < float("inf")

    @property
    def has_only_rests(self) -> bool:
        return self.rests_since < float("inf")


class Kept(NamedTuple):
    """Prompts are kept back."""

    reason: Reason  #: HELD or PROTECTED
    since: float
    until: float  #: when that ends by itself; 0: by steps, not by time


class Gate:
    """One executor's. Is told of prompts as they enter the queue, go through it and leave it."""

    __slots__ = (
        "ages", "arrivals", "decoded_at", "gap_s", "grew_at", "is_alternate", "itl_s", "kept", "last_prompts", "look",
        "num_decode_steps", "partials", "protect_left", "version",
    )  # fmt: skip

    def __init__(self, is_alternate: bool) -> None:
        self.is_alternate = is_alternate  #: a step is of decodes or of prompts, never of both (C12: the one value)
        self.version = 0  #: changes with the demand; only ever compared for equality
        self.arrivals: dict[int, float] = {}  #: prompts in the queue → since when they wait (fixed, C8)
        self.ages: list[tuple[float, int]] = []  #: the same, oldest first
        self.partials: dict[int, float] = {}  #: of these, the ones with a part computed → when that was last
        self.grew_at = 0.0  #: when the newest prompt came
        self.gap_s = MAX_GAP_S  #: between two arrivals, of late
        self.itl_s = 0.0  #: between two decode steps, of late, prompts in between included; 0: not measured yet
        self.decoded_at: float | None = None  #: when the last decode step was done, while sequences decode
        self.protect_left = 0  #: decode steps that are to run before the next step of prompts
        self.last_prompts = 0  #: the last step with prompts
        self.num_decode_steps = 0  #: done since that one
        self.look: Look | None = None
        self.kept: Kept | None = None  #: since the last decision

    def arrived(self, seq_id: int, arrived_at: float, now: float) -> None:
        """A prompt enters the queue. Its bound counts from its arrival here, less what it waited for a prefix before
        (P3), whatever happens to it later."""
        self.arrivals[seq_id] = arrived_at
        insort(self.ages, (arrived_at, seq_id))
        if self.grew_at:
            self.gap_s += GAP_MEMORY * (min(now - self.grew_at, MAX_GAP_S) - self.gap_s)
        self.grew_at = now
        self.version += 1

    def advanced(self, seq_id: int, now: float) -> None:
        """A part of a prompt was launched; more of it is to compute."""
        self.partials.pop(seq_id, None)
        self.partials[seq_id] = now
        self.version += 1

    def computed(self, seq_id: int, now: float) -> None:
        """A part of a prompt is done: from now on the rest is kept back, if it is."""
        if seq_id in self.partials:
            self.advanced(seq_id, now)

    def left(self, seq_id: int) -> None:
        """The prompt is no longer in the queue: launched to its end, or ended."""
        arrived_at = self.arrivals.pop(seq_id, None)
        if arrived_at is not None:
            del self.ages[bisect_left(self.ages, (arrived_at, seq_id))]
            self.version += 1
        self.partials.pop(seq_id, None)

    def gauges(self) -> dict[str, float]:
        values = {"itl_seconds": self.itl_s, "arrival_gap_seconds": self.gap_s if self.grew_at else 0.0}
        return values | ({"protected_steps_left": self.protect_left} if self.is_alternate else {})

    @property
    def oldest(self) -> float:
        """Since when the prompt in the queue waits that waits longest; there must be one."""
        return self.ages[0][0]

    @property
    def oldest_partial(self) -> float:
        """Since when the rest of a prompt waits longest; there must be one."""
        return next(iter(self.partials.values()))

    @property
    def standing(self) -> Look | None:
        """The last look, if demand has not changed since."""
        return self.look if self.look is not None and self.look.version == self.version else None
