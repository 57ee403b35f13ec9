"""The executor's machine: every event and message to the module that decides on it, and the end of each turn.

End of a turn, in this order: post what may be posted (H1), launch what may be launched, grant what became free, tell
the scheduler what changed, tell routers their tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy_extensions import mypyc_attr

from baton.core.config import ExecutorConfig
from baton.core.errors import InvariantViolated, Reason
from baton.core.events import ConnectLink, Note, PeerDown, PeerUp, Received, Send, Span, Wake, each_of
from baton.core.executor import (
    checks,
    gate,
    joining,
    launch,
    ownership,
    placing,
    pressure,
    receiver,
    sharing,
    tokens,
    transports,
    writer,
)
from baton.core.executor import events as ev
from baton.core.executor.cohorts import Cohorts
from baton.core.executor.state import ExecutorState
from baton.core.executor.walk import Draft
from baton.core.ids import Life, Peer, Role
from baton.core.knob_effects import contradiction
from baton.core.layout import KvLayout
from baton.core.wire import messages as m


@mypyc_attr(allow_interpreted_subclasses=True)  # parts of a scenario may be such
class ExecutorCore:
    """Decides about steps, memory and transfers of one executor. Never performs any of them."""

    def __init__(self, own: Peer, layout: KvLayout, config: ExecutorConfig, hash_key: bytes) -> None:
        config.validate()
        if why := contradiction(config, own.role):
            raise ValueError(why)
        if own.role is Role.PREFILL and layout.slot_bytes > config.piece_bytes:
            raise ValueError(f"piece_bytes = {config.piece_bytes}: one slot of one plane has {layout.slot_bytes}")
        self.state = ExecutorState(own, layout, config, hash_key)
        self.cohorts = Cohorts()
        self.next_wake: float | None = None
        self._holding_at = 0.0
        self._events = self._event_table()
        self._messages = self._message_table()

    def handle(self, event: Any, now: float) -> list[Any]:
        """Apply what has come; returns the commands in order. After Exit it returns nothing any more."""
        state = self.state
        if self._is_over():
            return []
        state.now = now
        state.out = []
        for happened in each_of(event):
            self._apply(happened)
            if self._is_over():
                self._flush()
                return state.out
        self._finish_turn()
        return state.out

    def _is_over(self) -> bool:
        """Exit was commanded."""
        return self.state.stopped

    def check_invariants(self) -> None:
        """Raises InvariantViolated (or PoolCorrupt) when the books do not balance."""
        checks.check_invariants(self.state)

    def quiescent(self) -> bool:
        """Whether nothing of any request is left."""
        return checks.is_quiescent(self.state)

    def gauges(self) -> dict[str, float]:
        """Values by name, for `/metrics`."""
        return checks.gauges(self.state)

    def readiness(self) -> str:
        """Empty when a request would work here now, else why not."""
        return checks.readiness(self.state)

    def unfinished(self) -> list[Note | Span]:
        """What the closing lines of the attempts here would say now, and since when prompts are kept back."""
        state = self.state
        found: list[Note | Span] = [ownership.closing_line(group) for group in state.groups.values()]
        return found if state.gate.kept is None else [*found, gate.span_of(state.gate.kept, state.now)]

    # ---- events

    def _event_table(self) -> dict[type, Callable[[Any], None]]:
        state = self.state
        return {
            Received: self._on_received,
            ev.StepAdvanced: lambda e: launch.on_step_advanced(state, e),
            ev.StepDone: lambda e: launch.on_step_done(state, self.cohorts, e.result),
            ev.StepFailed: lambda e: launch.on_step_failed(state, e),
            ev.PieceLanded: lambda e: writer.on_piece_landed(state, e),
            ev.PieceFailed: lambda e: writer.on_piece_failed(state, e.piece_id),
            ev.TransportOpened: lambda e: transports.on_opened(state, e),
            ev.TransportConnected: lambda e: transports.on_connected(state, e),
            ev.TransportFailed: lambda e: transports.on_failed(state, e),
            ev.TransportClosed: lambda e: transports.on_closed(state, e),
            ev.Drain: lambda _: self._on_drain(),
            PeerUp: lambda e: self._on_peer_up(e.peer),
            PeerDown: lambda e: self._on_peer_down(e.peer),
            Wake: lambda _: self._on_wake(),
        }

    def _message_table(self) -> dict[type, Callable[[Peer, Any], None]]:
        state = self.state
        return {
            m.Prefill: lambda _, msg: placing.on_prefill(state, msg),
            m.Decode: lambda _, msg: placing.on_decode(state, msg),
            m.Run: lambda _, msg: placing.on_run(state, msg),
            m.Abort: lambda _, msg: placing.abort(state, msg.id),
            m.Exited: lambda _, msg: transports.on_exited(state, msg.life),
            m.Returned: lambda _, msg: self._on_returned(msg),
            m.Roster: lambda _, msg: self._on_roster(msg),
            m.RouterInventory: lambda peer, msg: self._on_router_inventory(peer, msg),
            m.Stop: lambda _, msg: self._on_stop(msg),
            m.TransportInfo: lambda peer, msg: transports.on_info(state, peer, msg),
            m.TransportProven: lambda peer, _: transports.on_proven(state, peer),
            m.Receive: lambda peer, msg: placing.on_receive(state, peer, msg),
            m.CloseTransfer: self._on_close_transfer,
            m.ChunkPosted: lambda peer, msg: receiver.on_chunk_posted(state, peer, msg),
            m.ChunkLanded: lambda peer, msg: receiver.on_chunk_landed(state, peer, msg),
            m.Sealed: lambda peer, msg: receiver.on_sealed(state, peer, msg),
            m.TransferClosed: lambda peer, msg: transports.on_transfer_closed(state, peer, msg),
        }

    def _apply(self, event: Any) -> None:
        apply = self._events.get(type(event))
        if apply is None:
            raise InvariantViolated(f"an executor has no event {type(event).__name__}")
        apply(event)

    def _on_received(self, event: Received) -> None:
        self._messages[type(event.message)](event.peer, event.message)

    def _on_peer_up(self, peer: Peer) -> None:
        state = self.state
        if peer.role is Role.SCHEDULER:
            state.scheduler = peer
            state.memory.void_credit()
            state.reclaiming = state.reclaim_in_vain = False
            state.pace.begin_session()
            state.out.append(Send(peer.name, checks.inventory(state, pressure.headroom(state))))
            for group in state.groups.values():
                if group.is_due and group.outgoing is None:
                    state.tell_scheduler(m.Due(group.work_id))
        elif peer.role is Role.ROUTER:
            state.routers[peer.name] = peer
            state.router_left_at.pop(peer.life, None)
            self._end_older_routers(peer)
        else:
            transports.on_peer_up(state, peer)

    def _on_peer_down(self, peer: Peer) -> None:
        state = self.state
        if peer.role is Role.SCHEDULER:
            state.scheduler = None
            state.memory.void_credit()
            state.reclaiming = state.reclaim_in_vain = False
        elif peer.role is Role.ROUTER:
            state.routers.pop(peer.name, None)
            state.router_left_at[peer.life] = state.now
        else:
            for work_id in [i for i, early in state.early.items() if early.peer.life == peer.life]:
                del state.early[work_id]
            transports.on_peer_down(state, peer)

    def _on_wake(self) -> None:
        state = self.state
        for work_id in state.deadlines.due(state.now):
            group = state.groups.get(work_id)
            if group is not None and group.deadline <= state.now:
                placing.fail(state, group, Reason.DEADLINE)
        for life, left_at in list(state.router_left_at.items()):
            if left_at + state.config.router_silence_s <= state.now:
                self._end_router(life)
        transports.retry(state)
        placing.expire_early(state)
        if state.now >= self._holding_at:
            self._holding_at = state.now + state.config.holding_interval_s
            for peer in state.routers.values():
                live = tuple(i for i, g in state.groups.items() if g.work.router == peer.life)
                state.out.extend(state.outbox.flush(peer.life))
                state.out.append(Send(peer.name, m.Holding(live)))

    def _on_drain(self) -> None:
        if not self.state.draining:
            self.state.draining = True
            self.state.tell_scheduler(m.Draining())

    def _on_returned(self, message: m.Returned) -> None:
        state = self.state
        state.reclaiming = False
        if message.num_blocks > 0 and state.memory.try_spend(message.num_blocks, 0):
            state.reclaim_in_vain = False

    def _on_roster(self, message: m.Roster) -> None:
        """A prefill executor dials every executor that decodes."""
        if self.state.own.role is Role.PREFILL:
            peers = [peer for peer in message.executors if peer.role is Role.DECODE]
            self.state.out.extend(ConnectLink(peer) for peer in peers)

    def _on_close_transfer(self, peer: Peer, message: m.CloseTransfer) -> None:
        state = self.state
        for work_id, early in list(state.early.items()):
            if early.peer.life == peer.life and early.message.transfer_id == message.transfer_id:
                del state.early[work_id]
        writer.on_close_transfer(state, peer, message.transfer_id)

    # ---- routers

    def _on_router_inventory(self, peer: Peer, message: m.RouterInventory) -> None:
        """Abort what the router does not name; say again what the last session may have lost."""
        state = self.state
        known = dict(message.live)
        for work_id, group in list(state.groups.items()):
            if group.work.router != peer.life:
                continue
            if work_id not in known:
                placing.abort(state, work_id)
                continue
            for choice, offset in known[work_id]:
                record = tokens.record_from(group, choice, offset)
                if record is not None:
                    state.outbox.begin(peer.life, record)

    def _on_stop(self, message: m.Stop) -> None:
        group = self.state.groups.get(message.id)
        if group is None:
            return
        chosen = [s for s in group.sequences if s.choice == message.choice]
        if len(group.sequences) == group.work.num_choices and chosen:
            placing.stop(self.state, group, chosen[0])

    def _end_older_routers(self, peer: Peer) -> None:
        lives = {g.work.router for g in self.state.groups.values()} | set(self.state.router_left_at)
        for life in sorted(lives):
            if life.name == peer.name and life.epoch < peer.epoch:
                self._end_router(life)

    def _end_router(self, life: Life) -> None:
        """That life of the router reads nothing any more."""
        state = self.state
        state.router_left_at.pop(life, None)
        for work_id in [i for i, g in state.groups.items() if g.work.router == life]:
            placing.abort(state, work_id)
        state.outbox.forget(life)

    # ---- the end of a turn

    def _finish_turn(self) -> None:
        state = self.state
        if state.sharers:
            sharing.go_on(state)
        writer.post_ready(state)
        joining.admit(state)
        for lane, steps in enumerate(state.lanes):
            while len(steps) < state.config.num_queued_steps:
                pressure.make_room(state)
                draft = self._next_step(lane)
                if not draft:
                    break
                launch.launch(state, draft, lane)
                joining.admit(state)
        self._tell_scheduler()
        self._flush()
        self._set_wake()

    def _next_step(self, lane: int) -> Draft:
        return gate.next_step(self.state, lane)

    def _tell_scheduler(self) -> None:
        state = self.state
        done, state.num_prompt_tokens_done = state.num_prompt_tokens_done, 0
        published = b""
        if state.published:
            published, state.published = bytes(state.published), bytearray()
        evicted = state.memory.pool.take_evicted()
        if state.scheduler is None:
            return
        num_blocks = num_slots = 0
        if not state.draining:
            num_blocks, num_slots = state.memory.grant(pressure.headroom(state))
        if num_blocks:
            state.reclaim_in_vain = False
        if published or evicted:
            state.tell_scheduler(m.CacheChanged(published, evicted))
        if num_blocks or num_slots or done:
            state.tell_scheduler(m.Credit(num_blocks, num_slots, done))
        state.pace.tell(state)

    def _flush(self) -> None:
        state = self.state
        for life in state.outbox.waiting():
            peer = state.routers.get(life.name)
            if peer is not None and peer.epoch == life.epoch:
                state.out.extend(state.outbox.flush(life))

    def _set_wake(self) -> None:
        state = self.state
        wakes = [t.retry_at for t in state.transports.values() if t.retry_at is not None and t.is_closed]
        if state.router_left_at:
            wakes += [left_at + state.config.router_silence_s for left_at in state.router_left_at.values()]
        if state.early:
            wakes += [early.expires_at for early in state.early.values()]
        if state.sharers:
            wakes += [sharer.until for sharer in state.sharers.values()]
        if state.deadlines.first is not None:
            wakes.append(state.deadlines.first)
        if state.routers:
            wakes.append(self._holding_at)
        if (join_at := joining.wake_at(state)) is not None:
            wakes.append(join_at)
        kept = state.gate.kept
        if kept is not None and kept.until > state.now:
            wakes.append(kept.until)
        self.next_wake = min(wakes) if wakes else None
