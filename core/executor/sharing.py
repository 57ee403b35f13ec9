"""A block that several attempts share comes to this executor once (P14).

An attempt whose prompt begins with full blocks that an open transfer brings waits for that transfer before its own
writer hears of it, if those are at least half of the blocks that it would be sent: so many bytes are worth the delay,
which is bounded (`share_wait_s`, fixed when it first waits). All its memory is reserved before that, as every
attempt's is (W2); nothing can be written into it meanwhile. When the transfer is over, it shares what has landed, gives
as many blocks of its own back, and the writer is told of the rest; of what has not landed the first sharer in order
becomes the carrier.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from baton.core.errors import Reason
from baton.core.executor import ownership, pairing, receiver
from baton.core.executor.sequence import SequenceGroup
from baton.core.executor.state import ExecutorState
from baton.core.executor.tokens import HASH_BYTES
from baton.core.executor.transfers import Incoming, Sharer
from baton.core.ids import Life


def receive(state: ExecutorState, group: SequenceGroup, writer: Life) -> None:
    """Let the group's KV come: at once, or when another transfer is over."""
    _open_or_wait(state, group, writer, state.now + state.config.share_wait_s)


def go_on(state: ExecutorState) -> None:
    """At the end of a turn: let those in whose carrier is over, or whose wait is, in their groups' order (W4)."""
    due = [s for s in state.sharers.values() if s.carrier is None or s.until <= state.now]
    for sharer in sorted(due, key=lambda s: s.group.key):
        group = sharer.group
        how = "landed" if _share_landed(state, group) else "failed"
        if sharer.carrier is not None:
            sharer.carrier.sharers.remove(sharer)
            state.counters["share_waits_expired"] += 1
            how = "expired"
        ownership.end_wait(state, group, how)
        if pairing.is_paired(state, sharer.writer):
            _open_or_wait(state, group, sharer.writer, sharer.until)
        else:
            ownership.note_failure(state, group, Reason.LINK_BUSY, sharer.writer.name)
            ownership.end_group(state, group)
        ownership.disown(state, group.first)


# ---- inside


def _open_or_wait(state: ExecutorState, group: SequenceGroup, writer: Life, until: float) -> None:
    carrier = _carrier(state, group) if until > state.now else None
    if carrier is None:
        receiver.open_transfer(state, group, writer, group.first.num_published)
        return
    sharer = Sharer(group, writer, carrier, state.now, until)
    carrier.sharers.append(sharer)
    state.sharers[group.work_id] = sharer
    ownership.own(group.first)  # a first choice that was stopped keeps its blocks for the others, as with a transfer
    state.counters["share_waits"] += 1


def _carrier(state: ExecutorState, group: SequenceGroup) -> Incoming | None:
    """The transfer that brings at least half of what the group would be sent."""
    first, num_tokens = group.first, group.work.num_tokens
    num_held, num_full = first.num_published, num_tokens // state.layout.block_size
    if num_held == num_full:
        return None

    def bringer(index: int) -> Incoming | None:
        return state.arriving.get(bytes(first.hashes[index * HASH_BYTES : (index + 1) * HASH_BYTES]))

    carrier = bringer(num_held)
    if carrier is None:
        return None
    # a chain of hashes: what it brings of this prompt is its beginning
    end = bisect_left(range(num_full), True, lo=num_held, key=lambda index: bringer(index) is not carrier)
    num_asked = state.layout.blocks_for(num_tokens) - num_held
    return carrier if 2 * (end - num_held) >= num_asked else None


def _share_landed(state: ExecutorState, group: SequenceGroup) -> bool:
    """Hold what the index has by now of the prompt, in place of blocks of its own. False: no more than before."""
    first, pool, size = group.first, state.memory.pool, state.layout.block_size
    chain = bytes(first.hashes[: group.work.num_tokens // size * HASH_BYTES])
    num_hits = pool.match(chain)
    num_more = num_hits - first.num_published
    if num_more <= 0:
        return False
    hits = array("i", pool.acquire(chain, num_hits))
    pool.release(first.block_ids[:num_hits].tobytes())
    first.block_ids[:num_hits] = hits
    first.num_published = num_hits
    group.num_cached = num_hits * size
    state.counters["blocks_returned_shared"] += num_more
    state.counters["kv_bytes_not_sent"] += num_more * state.layout.block_bytes
    return True
