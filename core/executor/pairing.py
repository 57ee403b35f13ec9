"""Whether a pair of executors can be used now, and whether this end must drive its transport."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.executor.events import Drive
from baton.core.executor.state import ExecutorState
from baton.core.executor.transfers import Link
from baton.core.ids import Life, Role
from baton.core.wire import messages as m


def writes(state: ExecutorState) -> bool:
    """Whether this end is the writing one of its pairs."""
    return state.own.role is Role.PREFILL


def pair(state: ExecutorState, life: Life) -> None:
    """Receiving end: tell the scheduler once when the pair can be used: connected, in session, quarantine not full."""
    transport = state.transports.get(life)
    peer = state.peers.get(life.name)
    if transport is None or transport.is_paired or transport.link is not Link.READY:
        return
    if peer is None or peer.life != life or quarantine_is_full(state, life):
        return
    transport.is_paired = True
    state.tell_scheduler(m.PairReady(life))


def unpair(state: ExecutorState, life: Life, reason: Reason) -> None:
    transport = state.transports.get(life)
    if transport is not None and transport.is_paired:
        transport.is_paired = False
        state.tell_scheduler(m.PairLost(life, reason))


def update_drive(state: ExecutorState, life: Life) -> None:
    """Receiving end: drive the transport exactly while something may be landing or the first write is awaited."""
    transport = state.transports.get(life)
    if transport is None or writes(state) or transport.link not in (Link.OPEN, Link.READY):
        return
    peer = state.peers.get(life.name)
    is_greeting = transport.link is Link.OPEN and peer is not None and peer.life == life
    of_writer = state.arrivals.get(life)
    wanted = is_greeting or (of_writer is not None and bool(of_writer.moving))
    if wanted != transport.is_driven:
        transport.is_driven = wanted
        state.out.append(Drive(life.name, life.epoch, wanted))


def is_paired(state: ExecutorState, life: Life) -> bool:
    """Whether KV of that life can be received now."""
    transport = state.transports.get(life)
    peer = state.peers.get(life.name)
    return transport is not None and transport.link is Link.READY and peer is not None and peer.life == life


def quarantined_blocks(state: ExecutorState, life: Life) -> int:
    of_writer = state.arrivals.get(life)
    return 0 if of_writer is None else sum(of_writer.quarantined.values())


def quarantine_is_full(state: ExecutorState, life: Life) -> bool:
    bound = state.config.quarantine_blocks or max(1, state.memory.pool.num_blocks // 4)
    return quarantined_blocks(state, life) >= bound
