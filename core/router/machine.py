"""The router's machine: owns the client's stream, its attempts, its deadline and its one end.

Everyone else owes a cause; whatever went wrong, the answer is one of two: resume under the next attempt, or end.
"""

from __future__ import annotations

from typing import Any

from baton.core.config import RouterConfig
from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Note, PeerDown, PeerUp, Received, Wake, each_of
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.router import attempts
from baton.core.router.events import Arrive, ClientGone, Deliver, DeliverTokens, End, StopAt
from baton.core.router.state import RouterState
from baton.core.router.streams import LegState, Stream, wire_id
from baton.core.wire import messages as m
from baton.core.wire.tokens import SampledToken


class RouterCore:
    """Decides about streams. Tokens and text of nobody else's request are ever in its hands."""

    def __init__(self, own: Peer, config: RouterConfig) -> None:
        config.validate()
        self.state = RouterState(own, config)
        self.next_wake: float | None = None

    def handle(self, event: Any, now: float) -> list[Any]:
        """Apply what has come; returns the commands in order."""
        state = self.state
        state.now = now
        state.out = []
        for happened in each_of(event):
            self._apply(happened)
        self._set_wake()
        return state.out

    def _apply(self, event: Any) -> None:
        match event:
            case Received():
                self._on_received(event.peer, event.message)
            case Arrive():
                self._on_arrive(event)
            case StopAt():
                self._on_stop_at(event)
            case ClientGone():
                self._on_client_gone(event)
            case PeerUp():
                self._on_peer_up(event.peer)
            case PeerDown():
                self._on_peer_down(event.peer)
            case Wake():
                self._on_wake()
            case _:
                raise InvariantViolated(f"a router has no event {type(event).__name__}")

    def check_invariants(self) -> None:
        """Raises InvariantViolated when streams and legs disagree."""
        state = self.state
        of_streams = {leg.leg_id for stream in state.streams.values() for leg in stream.legs}
        if of_streams != set(state.legs):
            raise InvariantViolated("legs without a stream, or the other way round")
        if state.num_choices != sum(len(stream.choices) for stream in state.streams.values()):
            raise InvariantViolated(f"{state.num_choices} answers are counted")
        for stream in state.streams.values():
            if stream.is_over:
                raise InvariantViolated(f"request {stream.request.request_id} is over and still here")

    def quiescent(self) -> bool:
        """Whether no accepted request is without its end."""
        return not self.state.streams

    def gauges(self) -> dict[str, float]:
        """Values by name, for `/metrics`."""
        state = self.state
        values: dict[str, float] = {"streams": len(state.streams), "legs": len(state.legs)}
        values["legs_placed"] = sum(leg.state is LegState.PLACED for leg in state.legs.values())
        values["executors_linked"] = len(state.executors)
        values.update({f"{name}_total": count for name, count in state.counters.items()})
        return values

    def readiness(self) -> str:
        """Empty when a request would work now, else why not."""
        if self.state.scheduler is None:
            return "no session with the scheduler"
        return self.state.executors.readiness()

    def unfinished(self) -> list[Note]:
        """What the closing lines of the accepted requests would say now."""
        return [stream.closing_line(self.state.now) for stream in self.state.streams.values()]

    @property
    def executors(self) -> tuple[Peer, ...]:
        """The live executors as the scheduler last named them: for limits and the layout fingerprint."""
        return self.state.executors.named

    # ---- clients

    def _on_arrive(self, event: Arrive) -> None:
        state = self.state
        if event.request_id in state.streams:
            raise InvariantViolated(f"request id {event.request_id} is used twice")
        if state.num_choices + event.num_choices > state.config.max_streams:
            state.out.append(End(event.request_id, Reason.QUEUE_FULL, {"streams": state.num_choices}, 0, 0))
            return
        state.num_choices += event.num_choices
        stream = Stream(event, state.now, wire_id(state.own, event.request_id))
        state.streams[event.request_id] = stream
        state.deadlines.push(stream.deadline, event.request_id)
        attempts.submit(state, attempts.new_leg(state, stream, stream.choices))
        state.count("accepted")

    def _on_stop_at(self, event: StopAt) -> None:
        state = self.state
        stream = state.streams.get(event.request_id)
        if stream is None or stream.choices[event.choice].finish:
            return
        choice = stream.choices[event.choice]
        choice.finish = "stop"
        leg = next(leg for leg in stream.legs if choice in leg.choices)
        state.tell_holders(leg, m.Stop(leg.id, event.choice, event.offset))
        attempts.end_if_over(state, stream)

    def _on_client_gone(self, event: ClientGone) -> None:
        state = self.state
        stream = state.streams.get(event.request_id)
        if stream is not None:
            attempts.end(state, stream, event.reason)

    # ---- the scheduler

    def _on_received(self, peer: Peer, message: Any) -> None:
        state = self.state
        match message:
            case m.Records():
                life = peer.life
                if message.tokens:
                    self._on_rows(life, message)
                for record in message.records:
                    self._on_record(life, record)
            case m.Holding():
                self._on_holding(peer, message)
            case m.Placed():
                self._on_placed(message)
            case m.AttemptFailed():
                self._on_attempt_failed(message)
            case m.Refusal():
                self._on_refusal(message)
            case m.Roster():  # pragma: no branch - these links have no other message
                state.out.extend(state.executors.on_roster(message))

    def _on_placed(self, message: m.Placed) -> None:
        state = self.state
        leg = state.current(message.id)
        if leg is None:
            for life in dict.fromkeys((message.prefill, message.decode)):
                if life is not None:
                    state.tell_life(life, m.Abort(message.id))
            return
        leg.state = LegState.PLACED
        leg.stream.waited_ms = max(leg.stream.waited_ms, message.waited_ms)
        if leg.stream.placed_at is None:
            leg.stream.placed_at = state.now
        if message.why is not None and (leg.stream.first_token_at is None or not leg.stream.placement):
            leg.stream.placement = message.why.value
        leg.prefill, leg.decode, leg.flows_from = message.prefill, message.decode, None
        leg.confirmed_at = state.now
        for choice in leg.choices:
            if choice.finish and not leg.is_over:  # a stop that came before the place was known
                state.tell_holders(leg, m.Stop(leg.id, choice.index, len(choice.tokens)))

    def _on_refusal(self, message: m.Refusal) -> None:
        state = self.state
        leg = state.current(message.id)
        if leg is not None:
            attempts.end(state, leg.stream, message.reason, message.numbers)

    # ---- executors

    def _on_rows(self, sender: Life, message: m.Records) -> None:
        """Tokens that bring nothing else. What does not just go on where its choice is, goes the way of all records."""
        state, now, legs = self.state, self.state.now, self.state.legs
        plain: list[int] = []
        for leg_id, attempt, index, offset, token in message.tokens:
            leg = legs.get(leg_id)
            if leg is not None and leg.attempt == attempt and leg.flows_from == sender:
                first = leg.choices[0]
                choice = first if first.index == index else leg.choice(index)
                if choice is not None and offset == len(choice.tokens) and not choice.early and not choice.finish:
                    stream = leg.stream
                    choice.tokens.append(token)
                    leg.confirmed_at = stream.last_token_at = now
                    plain += (leg.request_id, index, offset, token)
                    continue
            if plain:
                state.out.append(DeliverTokens(tuple(plain)))
                plain = []
            self._on_record(sender, m.Record(AttemptId(leg_id, attempt), index, offset, (SampledToken(index, token),)))
        if plain:
            state.out.append(DeliverTokens(tuple(plain)))

    def _on_record(self, sender: Life, record: m.Record) -> None:
        state, now = self.state, self.state.now
        leg = state.current(record.id)
        if leg is None:
            state.tell(sender.name, m.Abort(record.id))
            state.count("records_of_old_attempts")
            return
        stream = leg.stream
        choice = leg.choice(record.choice)
        if choice is None:
            return
        if sender == leg.home:
            leg.confirmed_at = now
        if record.num_cached_tokens > 0 and leg.attempt == 0 and leg is stream.legs[0]:
            stream.num_cached = max(stream.num_cached, record.num_cached_tokens)
        offset = len(choice.tokens)
        fresh = choice.merge(record.offset, record.tokens, record.finish)
        if fresh:
            stream.last_token_at = now
            if stream.first_token_at is None:
                stream.first_token_at = now
            else:
                if stream.handed_over_at is None and sender == leg.decode != leg.prefill:
                    stream.handed_over_at = now
                leg.flows_from = sender if sender == leg.home else None
            scores = record.prompt_scores if offset == 0 == choice.index else None  # once: with what comes once
            finish, placement = choice.finish, stream.placement if offset == 0 else ""
            request_id = stream.request.request_id
            state.out.append(Deliver(request_id, choice.index, offset, fresh, finish, scores, placement))
            if finish:
                attempts.end_if_over(state, stream, sender)

    def _on_holding(self, peer: Peer, message: m.Holding) -> None:
        """Levels, not edges: what this router does not know is aborted, what it misses for too long is resumed."""
        state = self.state
        held = set(message.live)
        for work_id in message.live:
            if state.current(work_id) is None:
                state.tell(peer.name, m.Abort(work_id))
        for leg in [leg for leg in state.legs.values() if leg.home == peer.life]:
            if leg.id in held:
                leg.confirmed_at = state.now
            elif state.now - leg.confirmed_at > 2 * state.config.settle_s:
                attempts.fail(state, leg, Reason.PEER_LOST)

    def _on_attempt_failed(self, message: m.AttemptFailed) -> None:
        state = self.state
        leg = state.current(message.id)
        if leg is not None:
            attempts.fail(state, leg, message.reason)

    # ---- sessions

    def _on_peer_up(self, peer: Peer) -> None:
        state = self.state
        if peer.role is Role.SCHEDULER:
            state.scheduler = peer
            for leg in [leg for leg in state.legs.values() if attempts.needs_scheduler(leg)]:
                attempts.submit_again(state, leg)
            return
        state.executors.up(peer)
        offsets = ((leg.id, tuple((c.index, len(c.tokens)) for c in leg.choices)) for leg in state.legs.values())
        state.tell(peer.name, m.RouterInventory(tuple(offsets)))

    def _on_peer_down(self, peer: Peer) -> None:
        state = self.state
        if peer.role is Role.SCHEDULER:
            state.scheduler = None
            return
        state.out.extend(state.executors.down(peer))
        for leg in [leg for leg in state.legs.values() if leg.home == peer.life]:
            attempts.fail(state, leg, Reason.PEER_LOST)

    # ---- time

    def _on_wake(self) -> None:
        state = self.state
        for request_id in state.deadlines.due(state.now):
            stream = state.streams.get(request_id)
            if stream is not None and stream.deadline <= state.now:
                attempts.end(state, stream, Reason.DEADLINE)
        for leg_id in state.paused.due(state.now):
            leg = state.legs.get(leg_id)
            if leg is not None and leg.state is LegState.PAUSED and leg.resume_at <= state.now:
                attempts.submit(state, leg)
        if state.now >= state.sweep_at:
            attempts.sweep(state)

    def _set_wake(self) -> None:
        state = self.state
        wakes = [at for at in (state.deadlines.first, state.paused.first) if at is not None]
        if state.legs:
            wakes.append(state.sweep_at)
        self.next_wake = min(wakes) if wakes else None
