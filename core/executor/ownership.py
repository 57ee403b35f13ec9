"""Who may still touch a sequence's blocks: launched steps, pending copies, transfers. The last owner frees them, once.

Every path that ends a sequence goes through here: the blocks come back exactly once, and never before the completion of
all that was launched or posted with them is proven.
"""

from __future__ import annotations

from array import array

from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Note, Span
from baton.core.executor.sequence import Compute, Kind, Sequence, SequenceGroup
from baton.core.executor.state import ExecutorState
from baton.core.executor.transfers import Sharer
from baton.core.wire.messages import Ended


def own(sequence: Sequence) -> None:
    """Something that outlives the turn may touch the sequence's blocks."""
    sequence.num_owners += 1


def disown(state: ExecutorState, sequence: Sequence) -> None:
    """Its completion is proven."""
    if sequence.num_owners < 1:
        raise InvariantViolated(f"sequence {sequence.seq_id} is disowned more often than owned")
    sequence.num_owners -= 1
    _release_if_free(state, sequence)


def end_sequence(state: ExecutorState, sequence: Sequence) -> None:
    """No later plan names it. Ending twice is harmless. The last of its group ends the group."""
    if sequence.compute is Compute.ENDED:
        return
    group = sequence.group
    if sequence.compute is Compute.COMPUTED:
        state.parked_tokens -= group.work.num_tokens
    sequence.move(Compute.ENDED)
    state.running.pop(sequence.seq_id, None)
    state.joining.waiting.pop(sequence.seq_id, None)
    state.leave_queue(sequence.seq_id)
    _cancel_copy(state, sequence)
    _release_if_free(state, sequence)
    if group.is_over and state.groups.get(group.work_id) is group:
        del state.groups[group.work_id]
        if end_wait(state, group, "ended") is not None:
            disown(state, group.first)
        _tell_marks(state, group)
        count_prompt_tokens(state, group, 0)
        state.tell_scheduler(Ended(group.work_id))


def end_group(state: ExecutorState, group: SequenceGroup) -> None:
    """End all its sequences; transfers are the caller's to close."""
    for sequence in group.sequences:
        end_sequence(state, sequence)


def note_failure(state: ExecutorState, group: SequenceGroup, reason: Reason, detail: str = "") -> None:
    """Tell the router that this attempt is over without an end."""
    state.counters[f"failed_{reason.name.lower()}"] += 1
    state.out.append(Note("attempt failed", group.work_id.request_id, group.work_id.attempt, reason))
    state.outbox.fail(group.work.router, group.work_id, reason, detail)


def end_wait(state: ExecutorState, group: SequenceGroup, ended_by: str) -> Sharer | None:
    """The group waits no longer for what another's transfer brings, if it did."""
    sharer = state.sharers.pop(group.work_id, None)
    if sharer is not None:
        lasted = "shared blocks", sharer.since, state.now, Reason.PREFIX_WAIT, sharer.until, ended_by
        state.out.append(Span(*lasted, group.work_id.request_id, group.work_id.attempt))
    return sharer


def count_prompt_tokens(state: ExecutorState, group: SequenceGroup, num_left: int) -> None:
    """So many of the group's prompt tokens are still to compute here."""
    num_done = max(0, group.num_uncounted - num_left)
    group.num_uncounted -= num_done
    if group.kind is not Kind.DECODE:
        state.num_prompt_tokens_done += num_done


def closing_line(group: SequenceGroup) -> Note:
    """When the attempt reached each stage here."""
    what = f"{group.kind.name.lower()} ended"
    if "last_token" in group.marks.at:
        group.marks.at["last_token"] = max([sequence.last_token_at for sequence in group.sequences])
    return Note(what, group.work_id.request_id, group.work_id.attempt, numbers=group.marks.numbers())


def _tell_marks(state: ExecutorState, group: SequenceGroup) -> None:
    """One closing line for the attempt on this executor, and the counters of what was sent before the prompt's end."""
    marks = group.marks
    state.counters["kv_bytes_posted"] += marks.bytes_posted
    state.counters["kv_bytes_posted_early"] += marks.bytes_early
    state.out.append(closing_line(group))


def _cancel_copy(state: ExecutorState, sequence: Sequence) -> None:
    """Nobody needs a copy into it any more; perhaps no step would come that takes it along."""
    for pending in [pending for pending in state.copies if pending.destination is sequence]:
        state.copies.remove(pending)
        disown(state, pending.source)
        pending.destination.num_owners -= 1  # its blocks go with its end, right after this


def _release_if_free(state: ExecutorState, sequence: Sequence) -> None:
    if sequence.compute is not Compute.ENDED or sequence.num_owners:
        return
    if state.sequences.pop(sequence.seq_id, None) is None:
        raise InvariantViolated(f"sequence {sequence.seq_id} is released twice")
    if sequence.on_device:  # all that was launched with it is done, in every lane: any next plan may tell the device
        state.dropped.append(sequence.seq_id)
    state.memory.pool.release(sequence.block_ids.tobytes())
    sequence.block_ids = array("i")
    del sequence.group  # else the two of them would keep a long prompt until some collection of garbage
    state.memory.free_slot()
