"""The router's machine: owns the client's stream, its attempts, its deadline and its one end.

Everyone else owes a cause; whatever went wrong, the answer is one of two: resume under the next attempt, or end.
"""

from __future__ import annotations

from typing import Any

from baton.core.config import RouterConfig
from baton.core.deadlines import Deadlines
from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Note, PeerDown, PeerUp, Received, Send, Wake
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.router.events import Arrive, ClientGone, Deliver, End, StopAt
from baton.core.router.executors import Executors
from baton.core.router.streams import Choice, Leg, LegState, Stream, part_id, wire_id
from baton.core.wire import messages as m

PAUSE_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0)  #: before the next attempt, by failures so far; none after the first


class RouterCore:
    """Decides about streams. Tokens and text of nobody else's request are ever in its hands."""

    def __init__(self, own: Peer, config: RouterConfig) -> None:
        config.validate()
        self.own = own
        self.config = config
        self.next_wake: float | None = None
        self._now = 0.0
        self._out: list[Any] = []
        self._streams: dict[int, Stream] = {}
        self._num_choices = 0  #: of all streams
        self._legs: dict[int, Leg] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._paused: Deadlines[int] = Deadlines()
        self._scheduler: Peer | None = None  #: while its session is up
        self._executors = Executors()
        self._num_parts = 0  #: legs of one choice each that attempts of several were split into
        self._sweep_at = 0.0
        self.counters: dict[str, int] = {}

    def handle(self, event: Any, now: float) -> list[Any]:
        """Apply one event; returns the commands in order."""
        self._now = now
        self._out = []
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
        self._set_wake()
        return self._out

    def check_invariants(self) -> None:
        """Raises InvariantViolated when streams and legs disagree."""
        of_streams = {leg.leg_id for stream in self._streams.values() for leg in stream.legs}
        if of_streams != set(self._legs):
            raise InvariantViolated("legs without a stream, or the other way round")
        if self._num_choices != sum(len(stream.choices) for stream in self._streams.values()):
            raise InvariantViolated(f"{self._num_choices} answers are counted")
        for stream in self._streams.values():
            if stream.is_over:
                raise InvariantViolated(f"request {stream.request.request_id} is over and still here")

    def quiescent(self) -> bool:
        """Whether no accepted request is without its end."""
        return not self._streams

    def gauges(self) -> dict[str, float]:
        """Values by name, for `/metrics`."""
        values: dict[str, float] = {"streams": len(self._streams), "legs": len(self._legs)}
        values["legs_placed"] = sum(leg.state is LegState.PLACED for leg in self._legs.values())
        values["executors_linked"] = len(self._executors)
        values.update({f"{name}_total": count for name, count in self.counters.items()})
        return values

    def readiness(self) -> str:
        """Empty when a request would work now, else why not."""
        if self._scheduler is None:
            return "no session with the scheduler"
        return self._executors.readiness()

    @property
    def executors(self) -> tuple[Peer, ...]:
        """The live executors as the scheduler last named them: for limits and the layout fingerprint."""
        return self._executors.named

    # ---- clients

    def _on_arrive(self, event: Arrive) -> None:
        if event.request_id in self._streams:
            raise InvariantViolated(f"request id {event.request_id} is used twice")
        if self._num_choices + event.num_choices > self.config.max_streams:
            self._out.append(End(event.request_id, Reason.QUEUE_FULL, {"streams": self._num_choices}, 0, 0))
            return
        self._num_choices += event.num_choices
        stream = Stream(event, self._now, wire_id(self.own, event.request_id))
        self._streams[event.request_id] = stream
        self._deadlines.push(stream.deadline, event.request_id)
        self._submit(self._new_leg(stream, stream.choices))
        self._count("accepted")

    def _on_stop_at(self, event: StopAt) -> None:
        stream = self._streams.get(event.request_id)
        if stream is None or stream.choices[event.choice].finish:
            return
        choice = stream.choices[event.choice]
        choice.finish = "stop"
        leg = next(leg for leg in stream.legs if choice in leg.choices)
        for life in self._holders(leg):
            self._tell_life(life, m.Stop(leg.id, event.choice, event.offset))
        self._end_if_over(stream)

    def _on_client_gone(self, event: ClientGone) -> None:
        stream = self._streams.get(event.request_id)
        if stream is not None:
            self._end(stream, event.reason)

    # ---- the scheduler

    def _on_received(self, peer: Peer, message: Any) -> None:
        match message:
            case m.Records():
                for record in message.records:
                    self._on_record(peer, record)
            case m.Holding():
                self._on_holding(peer, message)
            case m.Placed():
                self._on_placed(message)
            case m.AttemptFailed():
                self._on_attempt_failed(message)
            case m.Refusal():
                self._on_refusal(message)
            case m.Roster():
                self._out.extend(self._executors.on_roster(message))

    def _on_placed(self, message: m.Placed) -> None:
        leg = self._current(message.id)
        if leg is None:
            for life in dict.fromkeys((message.prefill, message.decode)):
                if life is not None:
                    self._tell_life(life, m.Abort(message.id))
            return
        leg.state = LegState.PLACED
        if leg.stream.placed_at is None:
            leg.stream.placed_at = self._now
        leg.prefill, leg.decode = message.prefill, message.decode
        leg.confirmed_at = self._now
        for choice in leg.choices:
            if choice.finish and not leg.is_over:  # a stop that came before the place was known
                for life in self._holders(leg):
                    self._tell_life(life, m.Stop(leg.id, choice.index, len(choice.tokens)))

    def _on_refusal(self, message: m.Refusal) -> None:
        leg = self._current(message.id)
        if leg is not None:
            self._end(leg.stream, message.reason, message.numbers)

    # ---- executors

    def _on_record(self, peer: Peer, record: m.Record) -> None:
        leg = self._current(record.id)
        if leg is None:
            self._tell(peer.name, m.Abort(record.id))
            self._count("records_of_old_attempts")
            return
        stream = leg.stream
        choice = next((c for c in leg.choices if c.index == record.choice), None)
        if choice is None:
            return
        if peer.life == leg.home:
            leg.confirmed_at = self._now
        if leg.attempt == 0 and record.num_cached_tokens > 0 and leg is stream.legs[0]:
            stream.num_cached = max(stream.num_cached, record.num_cached_tokens)
        offset = len(choice.tokens)
        fresh = choice.merge(record.offset, record.tokens, record.finish)
        if fresh:
            if stream.first_token_at is None:
                stream.first_token_at = self._now
            self._out.append(Deliver(stream.request.request_id, choice.index, offset, fresh, choice.finish))
            self._end_if_over(stream, peer.life)

    def _on_holding(self, peer: Peer, message: m.Holding) -> None:
        """Levels, not edges: what this router does not know is aborted, what it misses for too long is resumed."""
        held = set(message.live)
        for work_id in message.live:
            if self._current(work_id) is None:
                self._tell(peer.name, m.Abort(work_id))
        for leg in [leg for leg in self._legs.values() if leg.home == peer.life]:
            if leg.id in held:
                leg.confirmed_at = self._now
            elif self._now - leg.confirmed_at > 2 * self.config.settle_s:
                self._fail_attempt(leg, Reason.PEER_LOST)

    def _on_attempt_failed(self, message: m.AttemptFailed) -> None:
        leg = self._current(message.id)
        if leg is not None:
            self._fail_attempt(leg, message.reason)

    # ---- sessions

    def _on_peer_up(self, peer: Peer) -> None:
        if peer.role is Role.SCHEDULER:
            self._scheduler = peer
            for leg in [leg for leg in self._legs.values() if self._needs_scheduler(leg)]:
                self._submit_again(leg)
            return
        self._executors.up(peer)
        offsets = ((leg.id, tuple((c.index, len(c.tokens)) for c in leg.choices)) for leg in self._legs.values())
        self._tell(peer.name, m.RouterInventory(tuple(offsets)))

    def _on_peer_down(self, peer: Peer) -> None:
        if peer.role is Role.SCHEDULER:
            self._scheduler = None
            return
        self._out.extend(self._executors.down(peer))
        for leg in [leg for leg in self._legs.values() if leg.home == peer.life]:
            self._fail_attempt(leg, Reason.PEER_LOST)

    # ---- time

    def _on_wake(self) -> None:
        for request_id in self._deadlines.due(self._now):
            stream = self._streams.get(request_id)
            if stream is not None and stream.deadline <= self._now:
                self._end(stream, Reason.DEADLINE)
        for leg_id in self._paused.due(self._now):
            leg = self._legs.get(leg_id)
            if leg is not None and leg.state is LegState.PAUSED and leg.resume_at <= self._now:
                self._submit(leg)
        if self._now >= self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Attempts on executors that this router cannot hear are lost after a while."""
        self._sweep_at = self._now + self.config.settle_s
        for leg in list(self._legs.values()):
            if leg.state is not LegState.PLACED or leg.home is None or self._executors.is_linked(leg.home):
                continue
            if self._now - leg.confirmed_at > 4 * self.config.settle_s:
                self._fail_attempt(leg, Reason.PEER_LOST)

    def _set_wake(self) -> None:
        wakes = [at for at in (self._deadlines.first, self._paused.first) if at is not None]
        if self._legs:
            wakes.append(self._sweep_at)
        self.next_wake = min(wakes) if wakes else None

    # ---- attempts

    def _new_leg(self, stream: Stream, choices: list[Choice], num_failures: int = 0) -> Leg:
        leg_id = stream.wire_id
        if choices is not stream.choices:
            self._num_parts += 1
            leg_id = part_id(self.own, self._num_parts)
        leg = Leg(leg_id, stream, choices, num_failures)
        stream.legs.append(leg)
        self._legs[leg.leg_id] = leg
        return leg

    def _submit(self, leg: Leg) -> None:
        leg.state = LegState.SUBMITTED
        leg.prefill = leg.decode = None
        leg.was_told = self._scheduler is not None
        if self._scheduler is None:
            return
        request, stream = leg.stream.request, leg.stream
        left_ms = max(1, int((stream.deadline - self._now) * 1000))
        age_ms = int((self._now - stream.arrived_at) * 1000)
        submit = m.Submit(leg.id, leg.work(self.own.life), left_ms, age_ms, request.priority_class, request.tenant)
        self._tell(self._scheduler.name, submit)

    def _submit_again(self, leg: Leg) -> None:
        """The scheduler's session is a new one. What was said in an earlier one may have been placed, run and ended
        without this router's hearing of it, so it is not said again under the same attempt. No Abort: the scheduler has
        dropped what waited, executors name what runs, and twice the words could fill the link again."""
        if not leg.was_told:
            self._submit(leg)
            return
        for part in self._parts(leg):
            for choice in part.choices:
                choice.early.clear()
            self._submit(part)

    def _fail_attempt(self, leg: Leg, reason: Reason) -> None:
        """The current attempt is over without an end: drop what is left of it, and go on or give up."""
        if self._legs.get(leg.leg_id) is not leg:
            return  # another leg of its stream failed in the same turn, and ended all of it
        self._abort(leg)
        self._count(f"attempts_failed_{reason.name.lower()}")
        stream = leg.stream
        name = "" if leg.leg_id == stream.wire_id else f"choice {leg.choices[0].index}, request {leg.leg_id}"
        self._out.append(Note("attempt failed", stream.wire_id, leg.attempt, reason, detail=name))
        if reason is Reason.DEADLINE or stream.deadline <= self._now:  # elsewhere it comes a rounding earlier
            self._end(stream, Reason.DEADLINE)
            return
        if reason is not Reason.PREEMPTED:
            leg.num_failures += 1
        if leg.num_failures >= self.config.max_attempts:
            self._end(stream, Reason.TOO_MANY_ATTEMPTS, {"attempts": leg.num_failures, "last_reason": int(reason)})
            return
        stream.num_attempts += 1
        for part in self._parts(leg):
            self._resume(part, reason)

    def _parts(self, leg: Leg) -> list[Leg]:
        """The leg itself under its next attempt, or one new leg for each unfinished choice of several."""
        if len(leg.choices) == 1:
            leg.attempt += 1
            return [leg]
        self._forget(leg)
        return [self._new_leg(leg.stream, [c], leg.num_failures) for c in leg.choices if not c.finish]

    def _resume(self, leg: Leg, reason: Reason) -> None:
        for choice in leg.choices:
            choice.early.clear()
        pause = 0.0 if reason is Reason.PREEMPTED else PAUSE_S[min(leg.num_failures, len(PAUSE_S)) - 1]
        if pause <= 0.0:
            self._submit(leg)
            return
        leg.state = LegState.PAUSED
        leg.prefill = leg.decode = None
        leg.resume_at = self._now + pause
        self._paused.push(leg.resume_at, leg.leg_id)

    def _abort(self, leg: Leg) -> None:
        """Tell everyone who may hold something of the current attempt."""
        if self._scheduler is not None:
            self._tell(self._scheduler.name, m.Abort(leg.id))
        for life in self._holders(leg):
            self._tell_life(life, m.Abort(leg.id))

    def _end_if_over(self, stream: Stream, ended_by: Life | None = None) -> None:
        """Whoever did not see the leg's end must not wait for it: the scheduler that may still place it, or a decode
        executor whose prefill executor ended it with the first token."""
        for leg in [leg for leg in stream.legs if leg.is_over]:
            if leg.state is not LegState.PLACED:
                self._abort(leg)
            elif leg.decode is not None and ended_by not in (None, leg.decode):
                self._tell_life(leg.decode, m.Abort(leg.id))
            self._forget(leg)
        if stream.is_over:
            self._finish(stream, None, {})

    def _end(self, stream: Stream, reason: Reason, numbers: dict[str, float] | None = None) -> None:
        for leg in list(stream.legs):
            self._abort(leg)
            self._forget(leg)
        self._finish(stream, reason, numbers or {})

    def _finish(self, stream: Stream, reason: Reason | None, numbers: dict[str, float]) -> None:
        request_id = stream.request.request_id
        del self._streams[request_id]
        self._num_choices -= len(stream.choices)
        self._count("ended_ok" if reason is None else f"ended_{reason.name.lower()}")
        self._out.append(Note("request ended", stream.wire_id, 0, reason, stream.numbers(self._now)))
        self._out.append(End(request_id, reason, numbers, stream.num_cached, stream.num_attempts))

    def _forget(self, leg: Leg) -> None:
        leg.stream.legs.remove(leg)
        del self._legs[leg.leg_id]

    # ---- who and where

    def _needs_scheduler(self, leg: Leg) -> bool:
        """Whether the scheduler has still to say where it runs, or where it decodes."""
        return leg.state is LegState.SUBMITTED or (leg.state is LegState.PLACED and leg.decode is None)

    def _current(self, work_id: AttemptId) -> Leg | None:
        leg = self._legs.get(work_id.request_id)
        return leg if leg is not None and leg.attempt == work_id.attempt and leg.state is not LegState.PAUSED else None

    def _holders(self, leg: Leg) -> list[Life]:
        return list(dict.fromkeys(life for life in (leg.prefill, leg.decode) if life is not None))

    def _tell(self, name: str, message: Any) -> None:
        self._out.append(Send(name, message))

    def _tell_life(self, life: Life, message: Any) -> None:
        if self._executors.is_linked(life):
            self._tell(life.name, message)

    def _count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1
