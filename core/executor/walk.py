"""`plan_step`: the only walk. Decodes first, then prompt chunks in order, within one token budget.

It reads and decides; `commit` (in `launch`) applies what it returned in the same turn. A draft that is not committed
leaves no trace. What is read from the prefix index here is acted on in the same turn (C18).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from baton.core.errors import Reason
from baton.core.executor.sequence import Sequence
from baton.core.executor.state import ExecutorState
from baton.core.executor.tokens import HASH_BYTES


class DraftItem(msgspec.Struct):
    """What the step computes of one prompt."""

    sequence: Sequence
    start: int
    num_tokens: int
    num_samples: int
    num_hits: int = 0  #: first chunk only: leading blocks to take over from the prefix index
    copies_last_hit: bool = False  #: the last hit is copied, since its last slot is computed again
    num_scores: int = 0  #: prompt tokens that its positions score


@dataclass(slots=True)
class Draft:
    """A step as decided, not yet committed. Decodes go before parts of prompts."""

    growable: int  #: free blocks that the step may still take
    decodes: list[Sequence] = field(default_factory=list)  #: each decodes one token, in a new block if it needs one
    items: list[DraftItem] = field(default_factory=list)  #: parts of prompts
    stopped_by: Reason | None = None  #: what last held demand back: TOKEN_BUDGET ended the walk, PARKED passed it over

    def __bool__(self) -> bool:
        """Whether it computes anything."""
        return bool(self.decodes or self.items)

    @property
    def num_tokens(self) -> int:
        """Of prompts."""
        return sum([item.num_tokens for item in self.items])


def plan_step(state: ExecutorState) -> Draft:
    """The next step: every limit of real admission applied once, here."""
    draft = Draft(state.memory.growable)
    budget = _plan_decodes(state, draft, state.config.token_budget)
    _plan_prefills(state, draft, budget)
    return draft


def plan_decodes(state: ExecutorState) -> Draft:
    """The next step, of decodes alone."""
    draft = Draft(state.memory.growable)
    _plan_decodes(state, draft, state.config.token_budget)
    return draft


def plan_prompts(state: ExecutorState) -> Draft:
    """The next step, of prompts alone."""
    draft = Draft(state.memory.growable)
    _plan_prefills(state, draft, state.config.token_budget)
    return draft


def has_demand(state: ExecutorState) -> bool:
    """Whether a plan of prompts would have items (C5)."""
    return len(state.queue) > 0 and state.queue.first_fit(*_allowed(state)) >= 0


def _plan_decodes(state: ExecutorState, draft: Draft, budget: int) -> int:
    """One token of each: there is one for all of them, as no more slots are than tokens in a step."""
    running = state.running.values()
    draft.decodes = [sequence for sequence in running if sequence.num_scheduled < sequence.free_until]
    if len(draft.decodes) < len(running):  # some need a block, or have all their tokens scheduled
        draft.decodes = _with_growing(draft, running)
    return budget - len(draft.decodes)


def _with_growing(draft: Draft, running: Iterable[Sequence]) -> list[Sequence]:
    decodes: list[Sequence] = []
    for sequence in running:
        if sequence.num_scheduled >= sequence.free_until:
            if not sequence.can_decode or draft.growable <= 0:
                continue  # KV_EXHAUSTED passes: others that have their block go on
            draft.growable -= 1
        decodes.append(sequence)
    return decodes


def _plan_prefills(state: ExecutorState, draft: Draft, budget: int) -> None:
    """Prompt chunks in the queue's order, past those that parked ones hold back, until the budget is spent (C3) or
    another prompt would only make the step longer (C15)."""
    allowed, num_visited, num_tokens, num_demand = _allowed(state), 0, 0, 0
    handle = state.queue.first_fit(*allowed)
    while handle >= 0:
        if budget == num_tokens:
            draft.stopped_by = Reason.TOKEN_BUDGET
            return
        sequence = state.sequences[handle]
        item = _plan_chunk(state, sequence, min(budget - num_tokens, state.config.long_prefill_tokens), draft.growable)
        if num_visited and state.shares_by_cost:
            num_demand = num_demand or _num_demand(state)
            if not state.pace.is_sharing_worth(num_tokens, num_visited, item.num_tokens, num_demand - num_visited):
                draft.stopped_by = Reason.UNSHARED
                return
        draft.growable -= item.copies_last_hit
        num_tokens += item.num_tokens
        draft.items.append(item)
        num_visited += 1
        handle = state.queue.first_fit(*allowed, after=handle)
    if num_visited < len(state.queue):
        draft.stopped_by = Reason.PARKED


def _num_demand(state: ExecutorState) -> int:
    """Prompts that could be computed now. Those that parked ones hold back wait for transfers, not for steps."""
    if not _is_full_of_parked(state):
        return len(state.queue)
    count, handle = 0, state.queue.first_fit(*_allowed(state))
    while handle >= 0:
        count, handle = count + 1, state.queue.first_fit(*_allowed(state), after=handle)
    return count


def _allowed(state: ExecutorState) -> tuple[int, int]:
    """The largest demands, as `note_demand` sets them, that the queue is searched for."""
    return int(not _is_full_of_parked(state)), 0


def _is_full_of_parked(state: ExecutorState) -> bool:
    """So many computed tokens wait for their transfer that new prompts wait; one prompt at a time may always go."""
    return 0 < state.config.parked_tokens <= state.parked_tokens


def _plan_chunk(state: ExecutorState, sequence: Sequence, cap: int, growable: int) -> DraftItem:
    work = sequence.group.work
    start, hits, copies = sequence.num_scheduled, 0, False
    if start == 0:
        hits, copies = _hits(state, sequence, growable)
        start = min(hits * state.layout.block_size, work.num_tokens - 1)
    end = start + min(work.num_tokens - start, cap)
    samples = work.num_choices if end == work.num_tokens else 0
    scores = min(end, work.num_tokens - 1) - start if work.wants_prompt_scores else 0
    return DraftItem(sequence, start, end - start, samples, hits, copies, num_scores=scores)


def _hits(state: ExecutorState, sequence: Sequence, growable: int) -> tuple[int, bool]:
    """Leading blocks found in the index, and whether the last of them must be copied.

    C21: a wholly cached prompt computes its last token only, in a copy of its last block; without a free block for the
    copy it computes that block. A prompt whose tokens are to be scored computes all of them.
    """
    if sequence.group.work.wants_prompt_scores:
        return 0, False
    size, num_tokens = state.layout.block_size, sequence.group.work.num_tokens
    num_full = num_tokens // size
    hits = state.memory.pool.match(bytes(sequence.hashes[: num_full * HASH_BYTES]))
    if state.layout.checkpoint_blocks > 1:
        return state.layout.anchor(min(hits, (num_tokens - 1) // size)), False  # from a saved state alone
    if hits * size < num_tokens:
        return hits, False
    if growable > 0 and size > 1:
        return hits, True
    return hits - 1, False
