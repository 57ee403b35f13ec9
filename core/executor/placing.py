"""What the scheduler places here: credit spent, blocks and slots taken in one turn, the attempt in the queue."""

from __future__ import annotations

from array import array

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.executor import ownership, pairing, receiver, sharing, tokens, writer
from baton.core.executor.sequence import Kind, Sequence, SequenceGroup
from baton.core.executor.state import EarlyReceive, ExecutorState
from baton.core.executor.tokens import HASH_BYTES
from baton.core.ids import AttemptId, Life, Peer
from baton.core.kv.demand import Demand, demand
from baton.core.wire import messages as m

EARLY_S = 2.0  #: how long a Receive waits for its Prefill


def on_prefill(state: ExecutorState, message: m.Prefill) -> None:
    group = _admit(state, message, Kind.PREFILL)
    if group is None:
        return
    held = _hold_prefix(state, group)
    _add_sequence(state, group, held + state.memory.pool.allocate(message.num_blocks - len(held) // 4))
    state.enter_queue(group.first)
    early = state.early.pop(message.id, None)
    if early is not None:
        on_receive(state, early.peer, early.message)


def on_run(state: ExecutorState, message: m.Run) -> None:
    group = _admit(state, message, Kind.RUN)
    if group is None:
        return
    _add_choices(state, group, message.num_blocks, _hold_prefix(state, group))
    state.enter_queue(group.first)


def on_decode(state: ExecutorState, message: m.Decode) -> None:
    """Reserve everything; name the blocks to the writer, now or when another transfer has brought some of them (P14).
    Nothing is decided later about its memory (W2)."""
    group = _admit(state, message, Kind.DECODE)
    if group is None:
        return
    if not pairing.is_paired(state, message.prefill):
        _refuse(state, group, Reason.LINK_BUSY, message.prefill)
        return
    size = state.layout.block_size
    hits = group.work.num_tokens // size
    chain = _chain(state, group, hits)
    num_hits = state.memory.pool.match(chain)
    held = state.memory.pool.acquire(chain, num_hits)
    _add_choices(state, group, message.num_blocks, held)
    group.first.hashes = bytearray(chain)
    group.first.num_published = num_hits
    group.num_cached = num_hits * size
    sharing.receive(state, group, message.prefill)


def on_receive(state: ExecutorState, peer: Peer, message: m.Receive) -> None:
    """Decode's blocks for an attempt: they meet its Prefill here, whichever comes first."""
    transport = state.transports.get(peer.life)
    if transport is not None:
        transport.window_bytes = max(1, message.window_bytes)
    group = state.groups.get(message.id)
    if group is None:
        state.early[message.id] = EarlyReceive(peer, message, state.now + EARLY_S)
    elif group.kind is Kind.PREFILL and group.outgoing is None:
        writer.open_transfer(state, peer, message, group)
    else:
        state.tell(peer.life, m.TransferClosed(message.transfer_id, Reason.INTERNAL))


def expire_early(state: ExecutorState) -> None:
    """A Prefill that did not come was lost with its scheduler: the receiver resumes its attempt."""
    for work_id, early in list(state.early.items()):
        if early.expires_at <= state.now:
            del state.early[work_id]
            state.tell(early.peer.life, m.TransferClosed(early.message.transfer_id, Reason.PEER_LOST))


def abort(state: ExecutorState, work_id: AttemptId) -> None:
    """Nobody wants the attempt: it leaves at once, wherever it stands (C13). Unknown ones are ignored."""
    group = state.groups.get(work_id)
    if group is None:
        return
    state.outbox.drop(group.work.router, work_id)
    close(state, group)


def close(state: ExecutorState, group: SequenceGroup, reason: Reason = Reason.ABORTED) -> None:
    """End the group and give up its transfer, on whichever end this is. A receiver is told the reason."""
    if group.incoming is not None:
        receiver.give_up(state, group)
    if group.outgoing is not None:
        writer.give_up(state, group.outgoing, reason)
    ownership.end_group(state, group)


def fail(state: ExecutorState, group: SequenceGroup, reason: Reason) -> None:
    """End the group and tell the router that the attempt cannot go on. It hears the same of a receiver, if one is told
    earlier than it is. It says how far the group's transfer has come (W7)."""
    ends = [end.progress for end in (group.outgoing, group.incoming) if end is not None]
    ownership.note_failure(state, group, reason, *ends)
    close(state, group, reason)


def stop(state: ExecutorState, group: SequenceGroup, sequence: Sequence) -> None:
    """G2: the router found a stop string: the choice ends here; text and usage end at the router's offset."""
    ownership.end_sequence(state, sequence)
    if group.is_over:
        close(state, group)


def demand_of(state: ExecutorState, work: m.Work) -> Demand:
    return demand(
        work.num_tokens, work.max_new_tokens, work.num_choices, state.config.growth_reserve, state.layout.block_size
    )


# ---- inside


def _admit(state: ExecutorState, message: m.Prefill | m.Decode | m.Run, kind: Kind) -> SequenceGroup | None:
    """Spend the credit. A mistake of the scheduler is a counted bug, never an attempt without an end."""
    work = message.work
    wanted = demand_of(state, work)
    num_blocks = wanted.prefill_blocks if kind is Kind.PREFILL else wanted.decode_blocks
    num_slots = 1 if kind is Kind.PREFILL else wanted.num_slots
    group = SequenceGroup(message.id, kind, work, message.order, state.now + message.time_left_ms / 1000, state.now)
    if not isinstance(message, m.Decode):
        group.num_uncounted -= min(message.num_cached, work.num_tokens)
        group.waited_s = message.waited_ms / 1000
    has_credit = state.memory.try_spend(message.num_blocks, num_slots)
    state.reclaim_in_vain = False
    if not has_credit or message.id in state.groups or message.num_blocks != num_blocks:
        _refuse(state, group, Reason.INTERNAL, None)
        return None
    state.groups[message.id] = group
    state.deadlines.push(group.deadline, message.id)
    router = state.routers.get(work.router.name)
    if router is None or router.life != work.router:
        state.router_left_at.setdefault(work.router, state.now)  # it comes, or this ends with its silence
    return group


def _refuse(state: ExecutorState, group: SequenceGroup, reason: Reason, peer: Life | None) -> None:
    """A refusal after placement: the attempt fails at once, and is counted."""
    state.counters["refused_after_placement"] += 1
    name = "" if peer is None else peer.name
    work_id = group.work_id
    state.out.append(Note("refused after placement", work_id.request_id, work_id.attempt, reason, peer=name))
    if state.groups.get(group.work_id) is group:
        del state.groups[group.work_id]
    ownership.count_prompt_tokens(state, group, 0)
    ownership.note_failure(state, group, reason)
    state.tell_scheduler(m.Ended(group.work_id))


def _hold_prefix(state: ExecutorState, group: SequenceGroup) -> bytes:
    """Blocks of the prefix index that the prompt starts with, but for the one that its last token lies in: held from
    now on, so that neither its own allocation nor another's evicts them before its first step. None of a prompt whose
    tokens are to be scored: all of it is computed."""
    if group.work.wants_prompt_scores:
        return b""
    chain = _chain(state, group, (group.work.num_tokens - 1) // state.layout.block_size)
    return state.memory.pool.acquire(chain, state.layout.anchor(state.memory.pool.match(chain)))


def _chain(state: ExecutorState, group: SequenceGroup, num_blocks: int) -> bytes:
    """Hashes of the first full blocks of the attempt's prompt, outputs of earlier attempts included."""
    probe = Sequence(0, group, 0, b"", state.layout.block_size)
    tokens.extend_hashes(state, probe)
    return bytes(probe.hashes[: num_blocks * HASH_BYTES])


def _add_choices(state: ExecutorState, group: SequenceGroup, num_blocks: int, held: bytes) -> None:
    """Allocate the decode demand: the first sequence holds the prompt, each further one what is its own (G7)."""
    num_held = len(held) // 4
    fresh = array("i", state.memory.pool.allocate(num_blocks - num_held))
    num_full = group.work.num_tokens // state.layout.block_size
    own = (num_blocks - num_full) // group.work.num_choices
    first_end = num_full + own - num_held
    _add_sequence(state, group, held + fresh[:first_end].tobytes())
    for choice in range(1, group.work.num_choices):
        begin = first_end + (choice - 1) * own
        _add_sequence(state, group, fresh[begin : begin + own].tobytes(), choice)


def _add_sequence(state: ExecutorState, group: SequenceGroup, block_ids: bytes, choice: int = 0) -> None:
    first = group.work.first_choice
    sequence = Sequence(state.next_seq_id(), group, first + choice, block_ids, state.layout.block_size)
    router = state.routers.get(sequence.router.name)
    if router is not None and router.life == sequence.router:
        sequence.router = router.life  # the same object for all of its sequences
    tokens.extend_hashes(state, sequence)
    group.sequences.append(sequence)
    state.sequences[sequence.seq_id] = sequence
    state.memory.take_slots(1)
