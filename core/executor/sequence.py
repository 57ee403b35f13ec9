"""A sequence, the group of sequences of one attempt, and the two status tables that say how far they are.

Compute and transfer have a status each, because chunks stream while the prompt is computed. A pair that is not in a
table is a bug and raises with the object's story.
"""

from __future__ import annotations

import enum
from array import array
from typing import TYPE_CHECKING

from baton.core.errors import IllegalTransition
from baton.core.executor.marks import Marks
from baton.core.executor.steps import PromptScores, SampledToken, TokenLogprobs
from baton.core.ids import AttemptId
from baton.core.wire.messages import Order, Work

if TYPE_CHECKING:
    from baton.core.executor.transfers import Incoming, Outgoing


class Compute(enum.IntEnum):
    """How far the computation of a sequence is."""

    WAITING = 0  #: holds its blocks; nothing was launched (or nothing has landed)
    RUNNING = 1  #: launched work or tokens to decode
    COMPUTED = 2  #: prefill executor: the prompt is computed, its KV is on its way
    ENDED = 3  #: no later plan names it; its blocks are free when nothing owns them any more


class Transfer(enum.IntEnum):
    """How far the KV transfer of a group is."""

    OPEN = 0
    SEALED = 1  #: all chunks are known
    LANDED = 2  #: all chunks have landed
    QUARANTINED = 3  #: given up; writes may still land
    CLOSED = 4  #: nothing of it can be written any more


_COMPUTE = {
    (Compute.WAITING, Compute.RUNNING),
    (Compute.WAITING, Compute.ENDED),
    (Compute.RUNNING, Compute.COMPUTED),
    (Compute.RUNNING, Compute.ENDED),
    (Compute.COMPUTED, Compute.ENDED),
}
_TRANSFER = {
    (Transfer.OPEN, Transfer.SEALED),
    (Transfer.OPEN, Transfer.QUARANTINED),
    (Transfer.OPEN, Transfer.CLOSED),
    (Transfer.SEALED, Transfer.LANDED),
    (Transfer.SEALED, Transfer.QUARANTINED),
    (Transfer.SEALED, Transfer.CLOSED),
    (Transfer.LANDED, Transfer.CLOSED),
    (Transfer.QUARANTINED, Transfer.CLOSED),
}


def check_transfer(old: Transfer, new: Transfer, story: tuple[str, ...]) -> None:
    """Raises IllegalTransition for a move that is not in the table."""
    if (old, new) not in _TRANSFER:
        raise IllegalTransition(f"transfer {old.name} → {new.name}", story)


class Kind(enum.IntEnum):
    """What an executor does for an attempt."""

    PREFILL = 0  #: computes the prompt and writes its KV to a decode executor
    DECODE = 1  #: receives KV, then decodes
    RUN = 2  #: both, here


class Sequence:
    """One choice of an attempt. Positions are counted from the prompt's first token."""

    __deletable__ = ("group",)  # for whoever compiles it: an attribute that is deleted
    __slots__ = (
        "block_ids",
        "block_size",
        "chain_intact",
        "choice",
        "compute",
        "first_output",
        "free_until",
        "group",
        "hashes",
        "last_token_at",
        "logprobs",
        "max_len",
        "num_computed",
        "num_owners",
        "num_prompt_tokens",
        "num_published",
        "num_scheduled",
        "on_device",
        "plain_until",
        "router",
        "row_head",
        "seq_id",
        "stop_token_ids",
        "story",
        "tokens",
        "work_id",
    )

    def __init__(self, seq_id: int, group: SequenceGroup, choice: int, block_ids: bytes, block_size: int) -> None:
        work = group.work
        self.seq_id = seq_id
        self.group = group
        self.choice = choice
        self.num_prompt_tokens = work.num_tokens  #: positions from here on decode
        self.first_output = work.num_client_tokens  #: position of the first output
        self.max_len = self.first_output + work.sampling.max_tokens  #: tokens that it may have at most
        self.stop_token_ids = work.sampling.stop_token_ids
        self.tokens = array("i", work.prompt)  #: prompt, then known outputs
        self.block_ids = array("i", block_ids)  #: in order of position
        self.block_size = block_size
        self.free_until = 0  #: positions below it can be decoded into the blocks that it has: see `note_blocks`
        self.note_blocks()
        self.num_computed = 0  #: positions [0, num_computed) have KV, proven
        self.num_scheduled = 0  #: the same, counting launched steps
        self.num_owners = 0  #: launched steps, pending copies and transfers that may touch its blocks
        self.logprobs: dict[int, TokenLogprobs] = {}  #: by position, of outputs that ask for them
        self.plain_until = 0  #: outputs at positions below it, but for stop tokens, bring nothing besides
        self.last_token_at = 0.0  #: when the last output came
        self.work_id = group.work_id  #: here too, as `router` is: a decode step looks at nothing but its sequences
        self.router = work.router
        self.row_head = (*group.work_id, choice)  #: how its tokens' rows begin
        self.hashes = bytearray(work.hashes)  #: 16 bytes for each full block whose tokens are known
        self.num_published = 0  #: leading blocks in the prefix index
        self.chain_intact = True  #: every block before `num_published` is the index's own
        self.compute = Compute.WAITING
        self.on_device = False
        self.story: list[str] = []

    def move(self, new: Compute) -> None:
        """Raises IllegalTransition for a move that is not in the table."""
        if (self.compute, new) not in _COMPUTE:
            raise IllegalTransition(f"sequence {self.seq_id}: {self.compute.name} → {new.name}", tuple(self.story))
        self.story.append(new.name)
        self.compute = new

    @property
    def yields_to_parked(self) -> bool:
        """Whether it waits while too many computed tokens wait for their transfer: a new prompt for which no decode
        executor holds blocks. Where one does, others may wait for these, so nothing holds it back."""
        return self.num_scheduled == 0 and self.group.kind is Kind.PREFILL and self.group.outgoing is None

    def note_blocks(self) -> None:
        """It has another number of blocks now. Whatever decodes is scheduled up to its last token but one, whose
        successor is not computed; so there is one comparison for whether it may go on and whether it has its block."""
        self.free_until = min(len(self.block_ids) * self.block_size, self.max_len - 1)

    @property
    def can_decode(self) -> bool:
        """Whether one more token may be scheduled, of a sequence that runs: the next one is known or being sampled."""
        return self.num_scheduled < self.max_len - 1

    @property
    def needs_block(self) -> bool:
        """Whether the next decoded position lies beyond its blocks."""
        return self.num_scheduled >= len(self.block_ids) * self.block_size


class SequenceGroup:
    """One attempt on this executor: its sequences share the prompt's full blocks."""

    __slots__ = (
        "deadline",
        "first_tokens",
        "incoming",
        "is_due",
        "kind",
        "marks",
        "num_cached",
        "num_uncounted",
        "order",
        "outgoing",
        "prompt_scores",
        "score_parts",
        "sequences",
        "waited_s",
        "work",
        "work_id",
    )

    def __init__(self, work_id: AttemptId, kind: Kind, work: Work, order: Order, deadline: float, now: float) -> None:
        self.work_id = work_id
        self.marks = Marks(now)
        self.kind = kind
        self.work = work
        self.order = order
        self.deadline = deadline
        self.sequences: list[Sequence] = []
        self.num_uncounted = work.num_tokens  #: prompt tokens that the scheduler counts as still to compute here
        self.waited_s = 0.0  #: for prefixes, before it came here: taken off the bounds of its holds (P3, C8)
        self.num_cached = 0  #: prompt tokens found in the prefix index
        self.score_parts: list[PromptScores] = []  #: of the steps so far, while the prompt is computed
        self.prompt_scores: PromptScores | None = None  #: if asked for; kept for a router that has lost them
        self.first_tokens: tuple[SampledToken, ...] = ()  #: writing end: of all choices, once they are sampled
        self.is_due = False  #: writing end: the scheduler was told that a decode executor is needed
        self.incoming: Incoming | None = None
        self.outgoing: Outgoing | None = None

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Its place among all attempts; smallest first."""
        return (self.order.priority_class, self.order.virtual_start, self.order.arrival, self.work_id.request_id)

    @property
    def first(self) -> Sequence:
        return self.sequences[0]

    @property
    def is_over(self) -> bool:
        return all(sequence.compute is Compute.ENDED for sequence in self.sequences)
