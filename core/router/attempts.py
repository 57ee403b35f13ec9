"""The life of attempts: submitted, failed, resumed or given up, and with the last of a request the request's end."""

from __future__ import annotations

import math

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.ids import Life
from baton.core.router.events import End
from baton.core.router.state import RouterState
from baton.core.router.streams import Choice, Leg, LegState, Stream, part_id
from baton.core.wire import messages as m

PAUSE_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0)  #: before the next attempt, by failures so far; none after the first


def new_leg(state: RouterState, stream: Stream, choices: list[Choice], num_failures: int = 0) -> Leg:
    """A leg of all the stream's choices has the stream's own id, a part of them one that no other has."""
    leg_id = stream.wire_id
    if choices is not stream.choices:
        state.num_parts += 1
        leg_id = part_id(state.own, state.num_parts)
    leg = Leg(leg_id, stream, choices, num_failures)
    stream.legs.append(leg)
    state.legs[leg.leg_id] = leg
    return leg


def submit(state: RouterState, leg: Leg) -> None:
    """Ask the scheduler for a place; without a session with it, its next one asks."""
    leg.state = LegState.SUBMITTED
    leg.prefill = leg.decode = leg.flows_from = None
    leg.was_told = state.scheduler is not None
    if state.scheduler is None:
        return
    leg.submitted_at = state.now
    request, stream = leg.stream.request, leg.stream
    left_ms = max(1, int((stream.deadline - state.now) * 1000))
    age_ms = int((state.now - stream.arrived_at) * 1000)
    work = leg.work(state.own.life)
    message = m.Submit(leg.id, work, left_ms, age_ms, request.priority_class, request.tenant, stream.waited_ms)
    state.tell(state.scheduler.name, message)


def needs_scheduler(leg: Leg) -> bool:
    """Whether the scheduler has still to say where it runs, or where it decodes."""
    return leg.state is LegState.SUBMITTED or (leg.state is LegState.PLACED and leg.decode is None)


def submit_again(state: RouterState, leg: Leg) -> None:
    """The scheduler's session is a new one. What was said in an earlier one may have been placed, run and ended
    without this router's hearing of it, so it is not said again under the same attempt. No Abort: the scheduler has
    dropped what waited, executors name what runs, and twice the words could fill the link again."""
    if not leg.was_told:
        submit(state, leg)
        return
    _note_wait(state, leg)
    for part in _parts(state, leg):
        for choice in part.choices:
            choice.early.clear()
        submit(state, part)


def fail(state: RouterState, leg: Leg, reason: Reason) -> None:
    """The current attempt is over without an end: drop what is left of it, and go on or give up."""
    if state.legs.get(leg.leg_id) is not leg:
        return  # another leg of its stream failed in the same turn, and ended all of it
    _abort(state, leg)
    state.count(f"attempts_failed_{reason.name.lower()}")
    stream = leg.stream
    name = "" if leg.leg_id == stream.wire_id else f"choice {leg.choices[0].index}, request {leg.leg_id}"
    state.out.append(Note("attempt failed", stream.wire_id, leg.attempt, reason, detail=name))
    if reason is Reason.DEADLINE or stream.deadline <= state.now:  # elsewhere it comes a rounding earlier
        end(state, stream, Reason.DEADLINE)
        return
    if reason is Reason.GRAMMAR_FAILED:  # it follows from the tokens so far: the next attempt would fail as this one
        end(state, stream, reason)
        return
    if reason is not Reason.PREEMPTED:
        leg.num_failures += 1
    if leg.num_failures >= state.config.max_attempts:
        end(state, stream, Reason.TOO_MANY_ATTEMPTS, {"attempts": leg.num_failures, "last_reason": int(reason)})
        return
    stream.num_attempts += 1
    _note_wait(state, leg)
    for part in _parts(state, leg):
        _resume(state, part, reason)


def end_if_over(state: RouterState, stream: Stream, ended_by: Life | None = None) -> None:
    """Whoever did not see the leg's end must not wait for it: the scheduler that may still place it, or a decode
    executor whose prefill executor ended it with the first token."""
    for leg in [leg for leg in stream.legs if leg.is_over]:
        if leg.state is not LegState.PLACED:
            _abort(state, leg)
        elif leg.decode is not None and ended_by not in (None, leg.decode):
            state.tell_life(leg.decode, m.Abort(leg.id))
        _forget(state, leg)
    if stream.is_over:
        _finish(state, stream, None, {})


def end(state: RouterState, stream: Stream, reason: Reason, numbers: dict[str, float] | None = None) -> None:
    """End the request with this error, wherever its attempts are."""
    for leg in list(stream.legs):
        _abort(state, leg)
        _forget(state, leg)
    _finish(state, stream, reason, numbers or {})


def sweep(state: RouterState) -> None:
    """Attempts on executors that this router cannot hear are lost after a while."""
    state.sweep_at = state.now + state.config.settle_s
    for leg in list(state.legs.values()):
        if leg.state is not LegState.PLACED or leg.home is None or state.executors.is_linked(leg.home):
            continue
        if state.now - leg.confirmed_at > 4 * state.config.settle_s:
            fail(state, leg, Reason.PEER_LOST)


# ---- inside


def _note_wait(state: RouterState, leg: Leg) -> None:
    """An attempt of which no place was heard is over: perhaps it waited for a prefix all the time (P10)."""
    if leg.state is LegState.SUBMITTED and leg.was_told:
        leg.stream.waited_ms += math.ceil((state.now - leg.submitted_at) * 1000)


def _parts(state: RouterState, leg: Leg) -> list[Leg]:
    """The leg itself under its next attempt, or one new leg for each unfinished choice of several."""
    if len(leg.choices) == 1:
        leg.attempt += 1
        return [leg]
    _forget(state, leg)
    return [new_leg(state, leg.stream, [c], leg.num_failures) for c in leg.choices if not c.finish]


def _resume(state: RouterState, leg: Leg, reason: Reason) -> None:
    for choice in leg.choices:
        choice.early.clear()
    pause = 0.0 if reason is Reason.PREEMPTED else PAUSE_S[min(leg.num_failures, len(PAUSE_S)) - 1]
    if pause <= 0.0:
        submit(state, leg)
        return
    leg.state = LegState.PAUSED
    leg.prefill = leg.decode = leg.flows_from = None
    leg.resume_at = state.now + pause
    state.paused.push(leg.resume_at, leg.leg_id)


def _abort(state: RouterState, leg: Leg) -> None:
    """Tell everyone who may hold something of the current attempt."""
    if state.scheduler is not None:
        state.tell(state.scheduler.name, m.Abort(leg.id))
    state.tell_holders(leg, m.Abort(leg.id))


def _finish(state: RouterState, stream: Stream, reason: Reason | None, numbers: dict[str, float]) -> None:
    request_id = stream.request.request_id
    del state.streams[request_id]
    state.num_choices -= len(stream.choices)
    state.count("ended_ok" if reason is None else f"ended_{reason.name.lower()}")
    state.out.append(stream.closing_line(state.now, reason))
    stages_ms = stream.stages_ms(state.now)
    told = stream.num_cached, stream.num_attempts, stages_ms, stream.placement
    state.out.append(End(request_id, reason, numbers, *told))


def _forget(state: RouterState, leg: Leg) -> None:
    leg.stream.legs.remove(leg)
    del state.legs[leg.leg_id]
