"""The receiving end of KV transfers: blocks named to the writer, activation when all landed, quarantine until proof.

Every path by which KV enters this executor comes through `open_transfer` (W12).
"""

from __future__ import annotations

from collections.abc import Iterator

from baton.core.errors import Reason
from baton.core.executor import arrivals, ownership, pairing, tokens
from baton.core.executor.sequence import SequenceGroup, Transfer
from baton.core.executor.state import ExecutorState
from baton.core.executor.tokens import HASH_BYTES
from baton.core.executor.transfers import Incoming, Link
from baton.core.ids import Life, Peer
from baton.core.wire import messages as m


def open_transfer(state: ExecutorState, group: SequenceGroup, life: Life, num_held_blocks: int) -> None:
    """Name the blocks after the `num_held_blocks` that lie here already; the writer may touch them from now on."""
    num_prompt_blocks = state.layout.blocks_for(group.work.num_tokens)
    ids = group.first.block_ids[num_held_blocks:num_prompt_blocks]
    generation = state.transports[life].generation
    hashes = b""
    if state.config.share_wait_s > 0:
        num_full = state.layout.anchor(group.work.num_tokens // state.layout.block_size)  # what will be published (P1)
        hashes = bytes(group.first.hashes[: num_full * HASH_BYTES][num_held_blocks * HASH_BYTES :])
    window_bytes = _window_share(state, life)
    transfer = Incoming(state.next_transfer_id(), life, generation, group, len(ids), hashes, window_bytes)
    group.incoming = transfer
    state.incoming[transfer.transfer_id] = transfer
    arrivals.note(state, transfer)
    for block_hash in _each(hashes):
        state.arriving.setdefault(block_hash, transfer)
    ownership.own(group.first)
    state.tell(
        life,
        m.Receive(transfer.transfer_id, group.work_id, num_held_blocks, ids.tobytes(), window_bytes),
    )


def on_chunk_posted(state: ExecutorState, peer: Peer, message: m.ChunkPosted) -> None:
    transfer = _of(state, peer, message.transfer_id)
    if transfer is not None:
        transfer.posted.add(message.chunk)
        arrivals.note(state, transfer)
        transfer.group.marks.first("first_chunk", state.now)
        pairing.update_drive(state, transfer.peer)


def on_chunk_landed(state: ExecutorState, peer: Peer, message: m.ChunkLanded) -> None:
    """Chunks count by their number, so that a message said twice counts once."""
    transfer = _of(state, peer, message.transfer_id)
    if transfer is None:
        return
    transfer.posted.add(message.chunk)
    transfer.landed.add(message.chunk)
    arrivals.note(state, transfer)
    pairing.update_drive(state, transfer.peer)
    _activate_if_landed(state, transfer)


def on_sealed(state: ExecutorState, peer: Peer, message: m.Sealed) -> None:
    transfer = _of(state, peer, message.transfer_id)
    if transfer is None or transfer.status is not Transfer.OPEN:
        return
    transfer.move(Transfer.SEALED)
    if not _fits(message, transfer.group.work):
        ownership.note_failure(state, transfer.group, Reason.INTERNAL, "Sealed with other than was asked for")
        give_up(state, transfer.group)
        ownership.end_group(state, transfer.group)
        return
    transfer.num_chunks = message.num_chunks
    transfer.first_tokens = message.first_tokens
    transfer.group.prompt_scores = message.prompt_scores
    _activate_if_landed(state, transfer)


def on_transfer_closed(state: ExecutorState, peer: Peer, message: m.TransferClosed) -> bool:
    """The writer's word: it has no handle any more. Answers CloseTransfer, or ends the attempt.

    True when its blocks stay in quarantine until this end's agent is closed, which the caller is to command.
    """
    transfer = _of(state, peer, message.transfer_id)
    if transfer is None:
        return False
    group = transfer.group
    if message.reason is not None and not group.is_over:
        ownership.note_failure(state, group, message.reason, transfer.peer.name)
    must_close = not message.is_clean and _is_agent_open(state, transfer)
    if must_close:
        transfer.is_writer_over = True
        if transfer.status is not Transfer.QUARANTINED:
            transfer.move(Transfer.QUARANTINED)
            arrivals.note(state, transfer)
            _let_sharers_go(state, transfer)
    else:
        _release(state, transfer)
    ownership.end_group(state, group)
    return must_close


def give_up(state: ExecutorState, group: SequenceGroup) -> None:
    """The attempt ends before its KV has landed: the blocks stay with the transfer until the writer's word."""
    transfer = group.incoming
    if transfer is None or transfer.status not in (Transfer.OPEN, Transfer.SEALED):
        return
    transfer.move(Transfer.QUARANTINED)
    arrivals.note(state, transfer)
    _let_sharers_go(state, transfer)
    state.counters["quarantined_transfers"] += 1
    state.tell(transfer.peer, m.CloseTransfer(transfer.transfer_id))
    pairing.update_drive(state, transfer.peer)
    if pairing.quarantine_is_full(state, transfer.peer):
        pairing.unpair(state, transfer.peer, Reason.QUARANTINE)


def on_peer_lost(state: ExecutorState, life: Life) -> None:
    """The link is gone: what was said on it may be lost, so every open transfer of it is given up."""
    for transfer in [t for t in state.incoming.values() if t.peer == life]:
        group = transfer.group
        if not group.is_over:
            ownership.note_failure(state, group, Reason.PEER_LOST, life.name)
        give_up(state, group)
        ownership.end_group(state, group)
    for sharer in [s for s in state.sharers.values() if s.writer == life]:
        ownership.note_failure(state, sharer.group, Reason.PEER_LOST, life.name)
        ownership.end_group(state, sharer.group)


def ask_again(state: ExecutorState, life: Life) -> None:
    """A session with the writer begins: ask for the proof of everything that is in quarantine."""
    for transfer in state.incoming.values():
        if transfer.peer == life and transfer.status is Transfer.QUARANTINED:
            state.tell(life, m.CloseTransfer(transfer.transfer_id))


def release_all(state: ExecutorState, life: Life, is_writer_dead: bool) -> None:
    """This end's agent is closed: of a writer that is dead, or that has said that it posts no more, nothing lands."""
    for transfer in [t for t in state.incoming.values() if t.peer == life and (is_writer_dead or t.is_writer_over)]:
        group = transfer.group
        if not group.is_over:
            ownership.note_failure(state, group, Reason.PEER_LOST, life.name)
        _release(state, transfer)
        ownership.end_group(state, group)


# ---- inside


def _of(state: ExecutorState, peer: Peer, transfer_id: int) -> Incoming | None:
    """The transfer, if it is this peer's. Late and foreign messages name none and are counted."""
    transfer = state.incoming.get(transfer_id)
    if transfer is None or transfer.peer != peer.life:
        state.counters["late_transfer_messages"] += 1
        return None
    return transfer


def _fits(message: m.Sealed, work: m.Work) -> bool:
    """Whether it brings a first token for each choice, and the prompt's scores exactly if they were asked for."""
    scores = message.prompt_scores
    if len(message.first_tokens) != work.num_choices or (scores is not None) != work.wants_prompt_scores:
        return False
    return scores is None or scores.is_complete(work.num_tokens)


def _is_agent_open(state: ExecutorState, transfer: Incoming) -> bool:
    """Whether the agent that the transfer's writes come through may still receive."""
    transport = state.transports.get(transfer.peer)
    return transport is not None and transport.generation == transfer.generation and not transport.is_closed


def _window_share(state: ExecutorState, life: Life) -> int:
    """This end's bound divided among the writers that it is connected to, and never more than the others leave of it.

    What a writer has on its way belongs to its open transfers, and is no more than the largest window that it was told
    with one of them: a writer that came later gets its whole share when the earlier ones' transfers of before are over.
    """
    num_writers = sum(1 for transport in state.transports.values() if transport.link is Link.READY)
    told = 0
    for writer, of_writer in state.arrivals.items():
        if writer != life:
            told += max([transfer.window_bytes for transfer in of_writer.transfers.values()])
    bound = state.config.window_bytes
    return max(1, min(bound // max(1, num_writers), bound - told))


def _activate_if_landed(state: ExecutorState, transfer: Incoming) -> None:
    if transfer.status is not Transfer.SEALED or transfer.num_chunks is None:
        return
    if not transfer.landed.issuperset(range(transfer.num_chunks)):
        return
    transfer.move(Transfer.LANDED)
    group = transfer.group
    group.marks.first("landed", state.now)
    group.marks.steps_at_landed = state.counters["steps_launched"]
    group.first.num_computed = group.first.num_scheduled = group.work.num_tokens
    tokens.begin_decode(state, group, transfer.first_tokens)
    _release(state, transfer)  # last: a first choice that was stopped lends its blocks to the others until here


def _let_sharers_go(state: ExecutorState, transfer: Incoming) -> None:
    """What it was to bring is here, or does not come by it any more."""
    for block_hash in _each(transfer.hashes):
        if state.arriving.get(block_hash) is transfer:
            del state.arriving[block_hash]
    for sharer in transfer.sharers:
        sharer.carrier = None
    transfer.sharers = []


def _each(hashes: bytes) -> Iterator[bytes]:
    return (hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES))


def _release(state: ExecutorState, transfer: Incoming) -> None:
    """Nothing can be written into its blocks any more; the group's own reference remains."""
    was_full = pairing.quarantine_is_full(state, transfer.peer)
    transfer.move(Transfer.CLOSED)
    _let_sharers_go(state, transfer)
    del state.incoming[transfer.transfer_id]
    arrivals.note(state, transfer)
    pairing.update_drive(state, transfer.peer)
    ownership.disown(state, transfer.group.first)
    if was_full:
        pairing.pair(state, transfer.peer)
