"""Growth of running sequences when blocks are short: unspent credit comes back, asked for a little ahead; then the
youngest is preempted."""

from __future__ import annotations

from collections.abc import Iterable

from baton.core.errors import Reason
from baton.core.executor import placing
from baton.core.executor.sequence import Compute, Sequence, SequenceGroup, Transfer
from baton.core.executor.state import ExecutorState
from baton.core.wire.messages import Reclaim

AHEAD = 2  #: positions before the end of a sequence's blocks at which its next one is asked for: answers take a while


def make_room(state: ExecutorState) -> None:
    """Before a plan: see that sequences at the end of their blocks get one, oldest first."""
    growable = state.memory.growable
    if growable >= len(state.running):
        return
    near = [s for s in state.running.values() if s.num_scheduled + AHEAD >= s.free_until]
    if not near:
        return
    short = len([s for s in near if s.needs_block and s.can_decode]) - growable
    if short <= 0:
        _reclaim(state, len([s for s in near if _outgrows(s)]) - growable)
        return
    state.counters["wait_kv_exhausted"] += 1
    short -= _coming(state)
    if short <= 0 or state.reclaiming or _reclaim(state, short):
        return
    while short > 0:
        victim = _youngest(state)
        if victim is None:
            return
        before = state.memory.growable + _coming(state)
        state.counters["preempted"] += 1
        placing.fail(state, victim, Reason.PREEMPTED)
        short -= state.memory.growable + _coming(state) - before


def headroom(state: ExecutorState) -> int:
    """Blocks not to be granted: one for each running sequence that may outgrow what it holds."""
    return len([s for s in _decoding(state) if s.free_until < s.max_len - 1])


def _outgrows(sequence: Sequence) -> bool:
    """Whether it may need more blocks than it holds."""
    return sequence.free_until < sequence.max_len - 1


def _reclaim(state: ExecutorState, num_blocks: int) -> bool:
    """Ask the scheduler for so much unspent credit, if it may have some: whether it is asked now."""
    if num_blocks <= 0 or state.reclaiming or state.reclaim_in_vain or state.scheduler is None:
        return False
    if not state.memory.outstanding_blocks:
        return False
    state.reclaiming = state.reclaim_in_vain = True
    state.tell_scheduler(Reclaim(num_blocks))
    return True


def _decoding(state: ExecutorState) -> Iterable[Sequence]:
    """In the batch, or about to join it."""
    running, waiting = state.running.values(), state.joining.waiting
    return [*running, *[arrival.sequence for arrival in waiting.values()]] if waiting else running


def _coming(state: ExecutorState) -> int:
    """Blocks of ended sequences that only launched steps still own: they come back with the next results.

    Shared ones count although they stay: the next turn counts again.
    """
    stepping = {s.seq_id for step in state.steps for s in step.owned}
    return sum(
        len(s.block_ids)
        for s in state.sequences.values()
        if s.compute is Compute.ENDED and s.seq_id in stepping and _has_no_open_transfer(s.group)
    )


def _has_no_open_transfer(group: SequenceGroup) -> bool:
    ends = (group.incoming, group.outgoing)
    return all(end is None or end.status is Transfer.CLOSED for end in ends)


def _youngest(state: ExecutorState) -> SequenceGroup | None:
    """The last in order of the running groups; the only one is never preempted, since nobody would gain."""
    groups = {s.group.work_id: s.group for s in _decoding(state)}
    if len(groups) < 2:
        return None
    return max(groups.values(), key=lambda group: group.key)
