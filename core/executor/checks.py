"""Laws of the executor's state, and what it shows of itself: inventory, gauges, readiness."""

from __future__ import annotations

from collections import Counter

from baton.core.errors import InvariantViolated
from baton.core.executor.arrivals import Arrivals
from baton.core.executor.sequence import Compute, Kind, Transfer
from baton.core.executor.state import ExecutorState
from baton.core.executor.transfers import Link
from baton.core.ids import Role
from baton.core.wire.messages import ExecutorInventory


def inventory(state: ExecutorState, headroom: int) -> ExecutorInventory:
    """What the scheduler must know when a session begins; grants all that is free."""
    num_blocks, num_slots = (0, 0) if state.draining else state.memory.grant(headroom)
    state.published = bytearray()
    state.memory.pool.take_evicted()
    state.num_prompt_tokens_done = 0
    pairs = tuple(life for life, transport in state.transports.items() if transport.is_paired)
    live = tuple((g.work_id, 0 if g.kind is Kind.DECODE else g.num_uncounted) for g in state.groups.values())
    return ExecutorInventory(live, num_blocks, num_slots, pairs, cached(state), state.draining)


def cached(state: ExecutorState) -> bytes:
    """All hashes of the prefix index."""
    pool = state.memory.pool
    hashes = (pool.block_hash(block_id) for block_id in range(pool.num_blocks))
    return b"".join(h for h in hashes if h is not None)


def is_quiescent(state: ExecutorState) -> bool:
    return not (
        state.groups
        or state.sequences
        or state.steps
        or state.incoming
        or state.outgoing
        or state.pieces
        or state.copies
    )


def gauges(state: ExecutorState) -> dict[str, float]:
    """Values by name; those of requests are back at zero when the executor is quiescent."""
    memory = state.memory
    values: dict[str, float] = {
        "blocks": memory.pool.num_blocks,
        "blocks_free": memory.pool.num_free,
        "blocks_cached": memory.pool.num_cached,
        "blocks_granted": memory.outstanding_blocks,
        "slots_used": memory.used_slots,
        "slots_granted": memory.outstanding_slots,
        "attempts": len(state.groups),
        "sequences_held": len(state.sequences),
        "sequences_running": len(state.running),
        "sequences_joining": len(state.joining.waiting),
        "sequences_waiting": len(state.queue),
        "steps_in_flight": len(state.steps),
        "transfers_incoming": len(state.incoming),
        "transfers_outgoing": len(state.outgoing),
        "transfer_bytes_in_flight": state.posted_bytes,
        "transfers_quarantined": sum(t.status is Transfer.QUARANTINED for t in state.incoming.values()),
        "parked_tokens": state.parked_tokens,
        "receives_early": len(state.early),
        "transfers_waiting_to_share": len(state.sharers),
        "draining": float(state.draining),
    }
    values |= state.pace.gauges() | state.gate.gauges()
    values |= {"prompt_tokens_computed_total": 0, "tokens_sampled_total": 0}  # shown from the start
    values.update({f"{name}_total": count for name, count in state.counters.items()})
    return values


def readiness(state: ExecutorState) -> str:
    if state.stopped:
        return "stopped"
    if state.draining:
        return "draining"
    if state.scheduler is None:
        return "no session with the scheduler"
    if not state.routers:
        return "no session with a router"
    if state.own.role is Role.UNIFIED or (state.own.role is Role.DECODE and not state.peers):
        return ""  # it needs nobody else; or there is nobody else, and it may have to compute all prompts
    if not any(transport.link is Link.READY for transport in state.transports.values()):
        return "no transport to another executor"
    return ""


def check_invariants(state: ExecutorState) -> None:
    state.memory.check_invariants()
    _check_blocks(state)
    _check_groups(state)
    _check_lanes(state)
    _check_sharers(state)
    _check_arrivals(state)
    _check_windows(state)


def _check_blocks(state: ExecutorState) -> None:
    """Every reference of every block belongs to one sequence or one launched step, and to nothing else."""
    held: Counter[int] = Counter()
    for sequence in state.sequences.values():
        held.update(sequence.block_ids)
    for step in state.steps:
        for ids in step.borrowed:
            held.update(memoryview(ids).cast("i"))
    pool = state.memory.pool
    for block_id in range(pool.num_blocks):
        if pool.ref_count(block_id) != held[block_id]:
            raise InvariantViolated(
                f"block {block_id} has {pool.ref_count(block_id)} references, {held[block_id]} holders are known"
            )
    if state.memory.used_slots != len(state.sequences):
        raise InvariantViolated(f"{state.memory.used_slots} slots used by {len(state.sequences)} sequences")


def _check_lanes(state: ExecutorState) -> None:
    """Where prompts have a lane of their own, a sequence is in one lane at a time (O8)."""
    if not state.overlaps:
        return
    decodes, prompts = state.lanes
    if any([step.num_decodes for step in prompts]) or any([step.kind != "decode" for step in decodes]):
        raise InvariantViolated("a step is in the other's lane")
    both = {s.seq_id for step in decodes for s in step.owned} & {s.seq_id for step in prompts for s in step.owned}
    if both:
        raise InvariantViolated(f"sequences {sorted(both)} are in both lanes")


def _check_groups(state: ExecutorState) -> None:
    owners: Counter[int] = Counter()
    for step in state.steps:
        owners.update(s.seq_id for s in step.owned)
    for pending in state.copies:
        owners.update((pending.source.seq_id, pending.destination.seq_id))
    for incoming in state.incoming.values():
        owners[incoming.group.first.seq_id] += 1
    for sharer in state.sharers.values():
        owners[sharer.group.first.seq_id] += 1
    for outgoing in state.outgoing.values():
        owners[outgoing.group.first.seq_id] += 1
    for sequence in state.sequences.values():
        if sequence.num_owners != owners[sequence.seq_id]:
            raise InvariantViolated(
                f"sequence {sequence.seq_id}: {sequence.num_owners} owners, {owners[sequence.seq_id]} known"
            )
        if sequence.compute is not Compute.ENDED and state.groups.get(sequence.group.work_id) is not sequence.group:
            raise InvariantViolated(f"sequence {sequence.seq_id} lives without its group")
        if sequence.num_scheduled < sequence.num_computed:
            raise InvariantViolated(f"sequence {sequence.seq_id} computed more than was scheduled")
    _check_running(state)
    for handle in state.queue.handles():
        if state.queue.demand(handle) != (state.sequences[handle].yields_to_parked, 0):
            raise InvariantViolated(f"sequence {handle} waits in the ready queue with another's demand")
    parked = sum(s.group.work.num_tokens for s in state.sequences.values() if s.compute is Compute.COMPUTED)
    if parked != state.parked_tokens:
        raise InvariantViolated(f"{state.parked_tokens} tokens parked, {parked} known")


def _check_running(state: ExecutorState) -> None:
    """Each has exactly one position more than is scheduled, whose token is known or being sampled, and knows how far
    its blocks reach: so one comparison says whether it may decode."""
    pending: Counter[int] = Counter()
    for step in state.steps:
        pending.update(s.seq_id for s in step.decodes)
        pending.update(s.seq_id for s, item in zip(step.prompts, step.plan.items, strict=True) if item.num_samples)
    for sequence in state.running.values():
        if sequence.num_scheduled + 1 != len(sequence.tokens) + pending[sequence.seq_id]:
            raise InvariantViolated(f"sequence {sequence.seq_id} runs and its next token is not the next one known")
        end = min(len(sequence.block_ids) * sequence.block_size, sequence.max_len - 1)
        if sequence.free_until != end:
            raise InvariantViolated(f"sequence {sequence.seq_id} runs to {sequence.free_until}, its blocks to {end}")


def _check_sharers(state: ExecutorState) -> None:
    """Whoever receives KV has a transfer, or waits for one that is open; who brings which block is known exactly."""
    opens = [t for t in state.incoming.values() if t.status in (Transfer.OPEN, Transfer.SEALED)]
    for transfer in state.incoming.values():
        if transfer in opens and transfer.group.is_over:
            raise InvariantViolated(f"transfer {transfer.transfer_id} is open and its attempt is over")
        if transfer.sharers and transfer not in opens:
            raise InvariantViolated(f"transfer {transfer.transfer_id} is over and {len(transfer.sharers)} wait for it")
    for block_hash, transfer in state.arriving.items():
        if transfer not in opens or block_hash not in transfer.hashes:
            raise InvariantViolated(f"block {block_hash.hex()} does not come by transfer {transfer.transfer_id}")
    for group in state.groups.values():
        sharer = state.sharers.get(group.work_id)
        if (group.kind is Kind.DECODE and group.incoming is None) != (sharer is not None):
            raise InvariantViolated(f"{group.work_id} has a transfer and waits for one, or neither")
        if sharer is None:
            continue
        if sharer.carrier is None or sharer.carrier not in opens or sharer not in sharer.carrier.sharers:
            raise InvariantViolated(f"{group.work_id} waits for a transfer that is over")
    if not state.sharers.keys() <= state.groups.keys():
        raise InvariantViolated("an attempt waits for blocks and is over")


def _check_arrivals(state: ExecutorState) -> None:
    """The books of each writer say what its transfers say."""
    for life in {transfer.peer for transfer in state.incoming.values()} | set(state.arrivals):
        mine = {t.transfer_id: t for t in state.incoming.values() if t.peer == life}
        known = state.arrivals.get(life, Arrivals())
        moving = {transfer_id for transfer_id, transfer in mine.items() if transfer.is_moving}
        quarantined = {i: t.num_blocks for i, t in mine.items() if t.status is Transfer.QUARANTINED}
        if not mine or (known.transfers, known.moving, known.quarantined) != (mine, moving, quarantined):
            raise InvariantViolated(f"the books of transfers from {life} are not those of its transfers")


def _check_windows(state: ExecutorState) -> None:
    in_flight = 0
    for life, transport in state.transports.items():
        mine = [t for (peer, _), t in state.outgoing.items() if peer == life]
        total = sum(flight.num_bytes for t in mine for _, flight in t.in_flight.values())
        count = sum(len(t.in_flight) for t in mine)
        if total != transport.in_flight:
            raise InvariantViolated(f"{transport.in_flight} bytes in flight to {life}, {total} known")
        if count > 1 and total > state.config.window_bytes:
            raise InvariantViolated(f"{total} bytes in flight to {life}, the window has {state.config.window_bytes}")
        in_flight += total
    if len(state.pieces) > 1 and state.posted_bytes > state.config.total_window_bytes:
        raise InvariantViolated(f"{state.posted_bytes} bytes in flight of {state.config.total_window_bytes}")
    if in_flight > state.posted_bytes:
        raise InvariantViolated(f"{state.posted_bytes} bytes posted, {in_flight} known")
