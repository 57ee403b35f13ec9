"""The writing end of KV transfers: chunks as their KV is computed, pieces in order within the window, proof at the end.

H1: what may be posted is posted before the next step is launched in the same turn. H2/H12: what may not be posted holds
back nothing but itself and what stands behind it for the same peer (W14:
nobody overtakes when only the window is short).
"""

from __future__ import annotations

from bisect import insort

from baton.core.errors import Reason
from baton.core.executor import ownership
from baton.core.executor.bandwidth import Flight
from baton.core.executor.events import Piece, PieceLanded, Post
from baton.core.executor.sequence import Kind, SequenceGroup, Transfer
from baton.core.executor.state import ExecutorState
from baton.core.executor.transfers import Chunk, Link, Outgoing, Transport
from baton.core.ids import Life, Peer
from baton.core.wire import messages as m


def open_transfer(state: ExecutorState, peer: Peer, message: m.Receive, group: SequenceGroup) -> None:
    """Receive met its group, whichever came first."""
    transfer = Outgoing(message.transfer_id, peer.life, group, message.first_block, message.block_ids)
    if len(transfer.destination_ids) != state.layout.blocks_for(group.work.num_tokens) - message.first_block:
        ownership.note_failure(state, group, Reason.INTERNAL, "Receive names another number of blocks")
        ownership.end_group(state, group)
        state.tell(peer.life, m.TransferClosed(message.transfer_id, Reason.INTERNAL))
        return
    group.outgoing = transfer
    state.note_demand(group.first)
    ownership.own(group.first)
    state.outgoing[peer.life, message.transfer_id] = transfer
    transport = state.transports.get(peer.life)
    if transport is None or transport.link is Link.CLOSING:
        fail(state, transfer, Reason.PEER_LOST)
        return
    insort(transport.sending, transfer, key=lambda t: t.group.key)
    advance(state, group)


def ask_for_receiver(state: ExecutorState, group: SequenceGroup) -> None:
    """Tell the scheduler once that the prompt's end is near and nobody has asked for its KV."""
    if group.kind is not Kind.PREFILL or group.outgoing is not None or group.is_due:
        return
    left = group.work.num_tokens - group.first.num_scheduled
    if left <= state.config.handoff_lead_steps * state.config.token_budget:
        group.is_due = True
        state.tell_scheduler(m.Due(group.work_id))


def advance(state: ExecutorState, group: SequenceGroup) -> None:
    """Make a chunk of the blocks that are computed and in no chunk yet; the partial one only with the prompt's end."""
    transfer = group.outgoing
    if transfer is None or transfer.status is not Transfer.OPEN or transfer.is_given_up:
        return
    sequence, size = group.first, state.layout.block_size
    is_complete = sequence.num_computed >= group.work.num_tokens
    end = state.layout.blocks_for(group.work.num_tokens) if is_complete else sequence.num_computed // size
    if end > transfer.next_block:
        _add_chunk(state, transfer, end, state.layout.num_planes)
        transfer.next_block = transfer.early_block = end
        transfer.early_planes = 0
    if is_complete and group.first_tokens:
        transfer.move(Transfer.SEALED)
        sealed = m.Sealed(transfer.transfer_id, transfer.num_chunks, group.first_tokens, group.prompt_scores)
        state.tell(transfer.peer, sealed)
        _finish_if_landed(state, transfer)


def advance_planes(state: ExecutorState, group: SequenceGroup, num_tokens: int, num_planes: int) -> None:
    """A running step computes the prompt up to `num_tokens`, and has written that in so many planes: make a chunk of
    them for the blocks that it completes."""
    transfer = group.outgoing
    if transfer is None or transfer.status is not Transfer.OPEN or transfer.is_given_up:
        return
    is_complete = num_tokens >= group.work.num_tokens
    end = state.layout.blocks_for(num_tokens) if is_complete else num_tokens // state.layout.block_size
    if end > transfer.next_block and num_planes > transfer.early_planes:
        _add_chunk(state, transfer, end, num_planes)
        transfer.early_block, transfer.early_planes = end, num_planes


def post_ready(state: ExecutorState) -> None:
    """Post what the windows allow, peer by peer, in the order of the requests."""
    for life, transport in state.transports.items():
        if transport.sending and transport.link is Link.READY:
            pieces = _take_pieces(state, life, transport)
            if pieces:
                state.out.append(Post(tuple(pieces)))


def on_piece_landed(state: ExecutorState, landed: PieceLanded) -> None:
    taken = _take_back(state, landed.piece_id)
    if taken is None:
        return
    transfer, chunk, flight = taken
    _measure(state, transfer.peer, flight)
    transfer.group.marks.committed(landed.posted_at, landed.post_s)
    chunk.num_left -= 1
    if transfer.is_given_up:
        _close_if_proven(state, transfer)
    elif chunk.num_left == 0:
        del transfer.chunks[chunk.number]
        state.tell(transfer.peer, m.ChunkLanded(transfer.transfer_id, chunk.number))
        _finish_if_landed(state, transfer)


def on_piece_failed(state: ExecutorState, piece_id: int) -> None:
    """H16: a chunk is not sent again; the transfer fails and the request resumes with other blocks."""
    taken = _take_back(state, piece_id)
    if taken is None:
        return
    transfer = taken[0]
    transfer.is_clean = False
    state.broken.add(transfer.peer)
    if transfer.is_given_up:
        _close_if_proven(state, transfer)
    else:
        state.counters["transfers_failed"] += 1
        fail(state, transfer, Reason.TRANSFER_FAILED)


def on_close_transfer(state: ExecutorState, peer: Peer, transfer_id: int) -> None:
    """The receiver gives it up and waits for the proof. An unknown transfer has no handle any more.

    How its handles ended is forgotten, so it counts as clean only if no write to this peer ever failed.
    """
    transfer = state.outgoing.get((peer.life, transfer_id))
    if transfer is None:
        state.tell(peer.life, m.TransferClosed(transfer_id, Reason.ABORTED, peer.life not in state.broken))
    else:
        fail(state, transfer, Reason.ABORTED)


def on_peer_lost(state: ExecutorState, life: Life) -> None:
    """The receiver's session is over: it fails these attempts; so does this end. One that it had not asked for yet
    ends when the scheduler hears of that."""
    for transfer in [t for (peer, _), t in state.outgoing.items() if peer == life]:
        fail(state, transfer, Reason.PEER_LOST)


def fail(state: ExecutorState, transfer: Outgoing, reason: Reason) -> None:
    """Send nothing more, end the attempt here, and close when every handle is proven."""
    group = transfer.group
    if not group.is_over and reason is not Reason.ABORTED:
        ownership.note_failure(state, group, reason, transfer.peer.name)
    give_up(state, transfer, reason)
    ownership.end_group(state, group)


def give_up(state: ExecutorState, transfer: Outgoing, reason: Reason | None) -> None:
    """H7: unsent pieces are dropped, sent ones polled to their end by the transfer thread."""
    if transfer.is_given_up or transfer.status is Transfer.CLOSED:
        return
    transfer.is_given_up = True
    transfer.close_reason = reason
    transfer.unsent.clear()
    transfer.chunks.clear()
    _unlist(state, transfer)
    _close_if_proven(state, transfer)


def finish_at_first_token(state: ExecutorState, group: SequenceGroup) -> None:
    """G6: every choice ended with its first token: nothing to decode, the transfer is drained."""
    transfer = group.outgoing
    if transfer is not None:
        give_up(state, transfer, None)


# ---- inside


def _add_chunk(state: ExecutorState, transfer: Outgoing, end: int, end_plane: int) -> None:
    """Of blocks [next_block, end), what is in no chunk yet of the planes before `end_plane`."""
    pieces: list[Piece] = []
    num_tokens = transfer.group.work.num_tokens
    for index in range(transfer.next_block, end):
        end_slot = min(state.layout.block_size, num_tokens - index * state.layout.block_size)
        first_plane = transfer.early_planes if index < transfer.early_block else 0
        pieces.extend(_pieces(state, transfer, index, end_slot, first_plane, end_plane))
    if not pieces:
        return
    num_bytes = sum(_piece_bytes(state, piece) for piece in pieces)
    chunk = Chunk(transfer.num_chunks, pieces, num_bytes)
    transfer.num_chunks += 1
    transfer.chunks[chunk.number] = chunk
    transfer.unsent.append(chunk)


def _pieces(
    state: ExecutorState, transfer: Outgoing, index: int, end_slot: int, first_plane: int, end_plane: int
) -> list[Piece]:
    """These planes of one block, or of the used slots of it, cut so that no write is larger than a piece: by planes,
    else by slots too."""
    layout, limit = state.layout, state.config.piece_bytes
    planes = max(1, limit // (end_slot * layout.slot_bytes))
    slots = min(end_slot, limit // layout.slot_bytes)
    source = transfer.group.first.block_ids[index]
    destination = transfer.destination_ids[index - transfer.first_block]
    return [
        Piece(
            piece_id=state.next_piece_id(),
            peer=transfer.peer.name,
            peer_epoch=transfer.peer.epoch,
            source_block=source,
            destination_block=destination,
            first_slot=slot,
            end_slot=min(slot + slots, end_slot),
            first_plane=plane,
            end_plane=min(plane + planes, end_plane),
        )
        for plane in range(first_plane, end_plane, planes)
        for slot in range(0, end_slot, slots)
    ]


def _piece_bytes(state: ExecutorState, piece: Piece) -> int:
    planes, slots = piece.end_plane - piece.first_plane, piece.end_slot - piece.first_slot
    return planes * slots * state.layout.slot_bytes


def _take_pieces(state: ExecutorState, life: Life, transport: Transport) -> list[Piece]:
    pieces: list[Piece] = []
    window_bytes = _pair_window(state, transport)
    for transfer in transport.sending:
        while transfer.unsent:
            chunk = transfer.unsent[0]
            num_bytes = _piece_bytes(state, chunk.unsent[0])
            if not _window_allows(state, transport, window_bytes, num_bytes):
                state.counters["wait_transfer_window"] += not chunk.has_waited
                chunk.has_waited = True
                return pieces
            if not chunk.is_announced:
                chunk.is_announced = True
                state.tell(life, m.ChunkPosted(transfer.transfer_id, chunk.number, chunk.num_bytes))
            piece = chunk.unsent.popleft()
            flight = transport.window.sent(num_bytes, state.now, transport.in_flight == 0)
            transfer.in_flight[piece.piece_id] = (chunk, flight)
            state.pieces[piece.piece_id] = transfer
            transport.in_flight += num_bytes
            state.posted_bytes += num_bytes
            transfer.group.marks.posted(num_bytes, state.now)
            pieces.append(piece)
            if not chunk.unsent:
                transfer.unsent.popleft()
    return pieces


def _pair_window(state: ExecutorState, transport: Transport) -> int:
    """Bound of one pair. Never more than its share of the total, so that stopped peers leave room for others (H12)."""
    num_pairs = len([other for other in state.transports.values() if other.link is Link.READY])
    share = state.config.total_window_bytes // max(1, num_pairs)
    bound = min(state.config.window_bytes, transport.window_bytes, share)
    return bound if state.config.window == "fixed" else min(bound, transport.window.num_bytes)


def _window_allows(state: ExecutorState, transport: Transport, window_bytes: int, num_bytes: int) -> bool:
    """W5: one piece may always go, however small the window."""
    if transport.in_flight and transport.in_flight + num_bytes > window_bytes:
        return False
    if transport.in_flight and state.config.window == "adaptive" and transport.window.is_probing:
        return False
    return not state.posted_bytes or state.posted_bytes + num_bytes <= state.config.total_window_bytes


def _take_back(state: ExecutorState, piece_id: int) -> tuple[Outgoing, Chunk, Flight] | None:
    """The window's bytes of one piece, exactly once."""
    transfer = state.pieces.pop(piece_id, None)
    if transfer is None:
        return None
    chunk, flight = transfer.in_flight.pop(piece_id)
    state.posted_bytes -= flight.num_bytes
    transport = state.transports.get(transfer.peer)
    if transport is not None:
        transport.in_flight -= flight.num_bytes
    return transfer, chunk, flight


def _measure(state: ExecutorState, life: Life, flight: Flight) -> None:
    """A piece has landed: what that says of the pair, and of what moving KV costs."""
    transport = state.transports.get(life)
    if transport is not None:
        transport.window.landed(flight, state.now)
        state.transfer_pace.window = transport.window
        state.pace.has_news = True


def _finish_if_landed(state: ExecutorState, transfer: Outgoing) -> None:
    if transfer.status is not Transfer.SEALED or transfer.chunks:
        return
    transfer.move(Transfer.LANDED)
    marks = transfer.group.marks
    marks.first("landed", state.now)
    if marks.bytes_posted:
        state.note_time("computed_to_commit_seconds", marks, "computed", "commit")
        state.note_time("computed_to_landed_seconds", marks, "computed", "landed")
        state.histograms["last_post_seconds"].observe(marks.post_s)
    _unlist(state, transfer)
    _forget(state, transfer)
    ownership.end_group(state, transfer.group)


def _close_if_proven(state: ExecutorState, transfer: Outgoing) -> None:
    if transfer.in_flight:
        return
    state.tell(transfer.peer, m.TransferClosed(transfer.transfer_id, transfer.close_reason, transfer.is_clean))
    _forget(state, transfer)


def _forget(state: ExecutorState, transfer: Outgoing) -> None:
    transfer.move(Transfer.CLOSED)
    del state.outgoing[transfer.peer, transfer.transfer_id]
    ownership.disown(state, transfer.group.first)


def _unlist(state: ExecutorState, transfer: Outgoing) -> None:
    transport = state.transports.get(transfer.peer)
    if transport is not None and transfer in transport.sending:
        transport.sending.remove(transfer)
