"""Connecting to a peer's KV memory: at the handshake, off every request's path, once for each life of the peer.

prefill: OpenTransport → TransportOpened → TransportInfo ──►
decode:  OpenTransport → TransportOpened → TransportInfo ──►  (and drives meanwhile)
prefill: both known → ConnectTransport → TransportConnected → TransportProven ──► decode: PairReady → scheduler
"""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.executor import events as ev
from baton.core.executor import pairing, receiver, writer
from baton.core.executor.state import ExecutorState
from baton.core.executor.transfers import Link, Transport
from baton.core.ids import Life, Peer
from baton.core.wire import messages as m

RETRY_S = 1.0  #: after a transport could not be opened or connected


def on_peer_up(state: ExecutorState, peer: Peer) -> None:
    """A session with an executor begins."""
    state.peers[peer.name] = peer
    transport = state.transports.get(peer.life)
    if transport is None:
        _open(state, peer.life)
    elif transport.link in (Link.OPEN, Link.CONNECTING, Link.READY):
        _introduce(state, peer.life, transport)
    _retire_older(state, peer.life)
    if not pairing.writes(state):
        receiver.ask_again(state, peer.life)


def on_peer_down(state: ExecutorState, peer: Peer) -> None:
    """The session is over; the peer may live, and may write."""
    state.peers.pop(peer.name, None)
    life = peer.life
    if pairing.writes(state):
        writer.on_peer_lost(state, life)
    else:
        pairing.unpair(state, life, Reason.PEER_LOST)
        receiver.on_peer_lost(state, life)
        pairing.update_drive(state, life)


def on_exited(state: ExecutorState, life: Life) -> None:
    """Whoever started that process has seen its exit, so that of its earlier lives too: they post nothing any more."""
    lives = set(state.transports) | {transfer.peer for transfer in state.incoming.values()}
    for dead in sorted(other for other in lives if other.name == life.name and other.epoch <= life.epoch):
        transport = state.transports.get(dead)
        if transport is None or transport.is_closed:
            state.transports.pop(dead, None)
            receiver.release_all(state, dead, is_writer_dead=True)
        elif transport.link is Link.CLOSING:
            transport.retry_at = None  # there is nobody to open it for: its closing is the proof
        else:
            close(state, dead, transport)


def on_opened(state: ExecutorState, event: ev.TransportOpened) -> None:
    life = Life(event.peer, event.peer_epoch)
    transport = state.transports.get(life)
    if transport is None or transport.link is not Link.OPENING:
        return
    transport.link = Link.OPEN
    transport.metadata = event.metadata
    transport.base_address = event.base_address
    _introduce(state, life, transport)
    _connect(state, life, transport)


def on_info(state: ExecutorState, peer: Peer, info: m.TransportInfo) -> None:
    """The writer connects once both ends are open. The receiver answers, and drives until the first write has landed:
    a writer that introduces itself has a new agent, or a new session."""
    transport = state.transports.get(peer.life)
    if transport is None:
        return
    if pairing.writes(state):
        known, transport.peer_info = transport.peer_info, info
        if known != info:
            state.broken.discard(peer.life)  # what was written to its earlier agent can land no more
        if known not in (None, info) and transport.link in (Link.CONNECTING, Link.READY):
            _start_again(state, peer.life, transport, state.now)  # what it was connected to is gone
        else:
            _connect(state, peer.life, transport)
    elif transport.link in (Link.OPEN, Link.READY):
        transport.link = Link.OPEN
        pairing.unpair(state, peer.life, Reason.LINK_BUSY)
        _introduce(state, peer.life, transport)


def on_connected(state: ExecutorState, event: ev.TransportConnected) -> None:
    life = Life(event.peer, event.peer_epoch)
    transport = state.transports.get(life)
    if transport is None or transport.link is not Link.CONNECTING:
        return
    transport.link = Link.READY
    state.tell(life, m.TransportProven())


def on_proven(state: ExecutorState, peer: Peer) -> None:
    """Receiving end: the first write has landed here."""
    transport = state.transports.get(peer.life)
    if transport is None or (transport.link is not Link.OPEN and transport.link is not Link.READY):
        return
    transport.link = Link.READY
    pairing.update_drive(state, peer.life)
    pairing.pair(state, peer.life)


def on_failed(state: ExecutorState, event: ev.TransportFailed) -> None:
    life = Life(event.peer, event.peer_epoch)
    transport = state.transports.get(life)
    state.out.append(Note("transport failed", peer=event.peer, detail=event.detail))
    if transport is not None and transport.link is not Link.CLOSING:
        _start_again(state, life, transport, state.now + RETRY_S)


def on_closed(state: ExecutorState, event: ev.TransportClosed) -> None:
    """Nothing of that agent reads or writes this memory any more."""
    life = Life(event.peer, event.peer_epoch)
    transport = state.transports.get(life)
    if transport is None:
        return
    if transport.retry_at is None:
        del state.transports[life]
    else:
        transport.is_closed = True
    receiver.release_all(state, life, is_writer_dead=transport.retry_at is None)


def on_transfer_closed(state: ExecutorState, peer: Peer, message: m.TransferClosed) -> None:
    """Receiving end: after a write that did not end well the connection is worth nothing; closing is the proof."""
    if receiver.on_transfer_closed(state, peer, message):
        transport = state.transports[peer.life]
        if transport.link is not Link.CLOSING:
            _start_again(state, peer.life, transport, state.now)


def retry(state: ExecutorState) -> None:
    """Open again what failed a while ago, if its peer is still there."""
    for life, transport in list(state.transports.items()):
        if transport.is_closed and transport.retry_at is not None and transport.retry_at <= state.now:
            del state.transports[life]
            peer = state.peers.get(life.name)
            if peer is not None and peer.life == life:
                _open(state, life)


def close(state: ExecutorState, life: Life, transport: Transport) -> None:
    transport.link = Link.CLOSING
    transport.is_driven = False
    pairing.unpair(state, life, Reason.PEER_LOST)
    state.out.append(ev.CloseTransport(life.name, life.epoch))


def _start_again(state: ExecutorState, life: Life, transport: Transport, at: float) -> None:
    """Close this end's agent; when it is gone, and not before `at`, a new one is opened.

    A transfer that has nothing in flight would hear of it from nobody, so all of them fail here.
    """
    for transfer in [t for (peer, _), t in state.outgoing.items() if peer == life]:
        writer.fail(state, transfer, Reason.TRANSFER_FAILED)
    close(state, life, transport)
    transport.retry_at = at


def _open(state: ExecutorState, life: Life) -> None:
    state.num_agents += 1
    state.transports[life] = Transport(state.num_agents, state.config.piece_bytes)
    state.out.append(ev.OpenTransport(life.name, life.epoch))


def _connect(state: ExecutorState, life: Life, transport: Transport) -> None:
    """Writing end: as soon as this agent exists and the peer's is known, whichever came first."""
    info = transport.peer_info
    if transport.link is Link.OPEN and info is not None:
        transport.link = Link.CONNECTING
        state.out.append(ev.ConnectTransport(life.name, life.epoch, info.metadata, info.base_address, info.num_blocks))


def _introduce(state: ExecutorState, life: Life, transport: Transport) -> None:
    """Say how this end is reached, and whether the first write has landed: true in every session."""
    num_blocks = state.memory.pool.num_blocks
    state.tell(life, m.TransportInfo(transport.metadata, transport.base_address, num_blocks))
    if pairing.writes(state) and transport.link is Link.READY:
        state.tell(life, m.TransportProven())
    pairing.update_drive(state, life)


def _retire_older(state: ExecutorState, newest: Life) -> None:
    """Transports to earlier lives of this peer go as soon as nothing is in flight or in quarantine there.

    A new epoch proves nothing about the old writer, so what is in quarantine stays until its exit was seen.
    """
    for life, transport in list(state.transports.items()):
        if life.name != newest.name or life.epoch >= newest.epoch or transport.link is Link.CLOSING:
            continue
        held = any(t.peer == life for t in state.incoming.values()) or any(key[0] == life for key in state.outgoing)
        if not held:
            close(state, life, transport)
