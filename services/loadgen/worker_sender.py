"""Sends a worker's share: takes what is due off the schedule, and keeps what sessions have said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from baton.core.metrics.facts import Phase, RequestFacts
from baton.services.loadgen.client import Client
from baton.services.loadgen.client_connection import Clock
from baton.services.loadgen.client_exchange import Exchange
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import BodyOf, Target, Turn
from baton.services.loadgen.worker_bodies import PreparedBodies
from baton.services.loadgen.worker_messages import Begin, unsent_facts
from baton.services.loadgen.worker_schedule import Due, Schedule, opening_times

SPARE_S = 0.002  #: bodies are prepared only while nothing is due for so long


class Sender:
    """One phase at a time. `told` is called once for each request of the share, when it has ended or was given up."""

    def __init__(self, begin: Begin, body_of: BodyOf, clock: Clock, told: Callable[[RequestFacts], None]) -> None:
        """Raises TargetInvalid."""
        self.phase_over = asyncio.Event()
        self._begin = begin
        self._target: Target = begin.target
        self._clock = clock
        self._told = told
        self._client = Client(self._target, clock, self._exchange_ended)
        self._bodies = PreparedBodies(body_of, by_phase(begin.requests))
        self._schedule = Schedule((), 0.0)
        self._not_begun = {request.index: request for request in begin.requests}  #: of phases that were not started
        self._ended: dict[int, float] = {}  #: index → end
        self._histories: dict[str, list[Turn]] = {}
        self._last_turns = last_turns(begin.requests)  #: of sessions whose turns follow what was answered
        self._timer: asyncio.TimerHandle | None = None
        self._spare: asyncio.Handle | None = None

    async def prepare(self) -> None:
        """Look the server up and make the first bodies. Raises OSError."""
        await self._client.start()
        while self._bodies.prepare_one():
            pass

    def start(self, phase: Phase, start_s: float) -> None:
        """Send the requests of a phase from then on; the one before it must be over."""
        requests = [request for request in self._not_begun.values() if request.phase is phase]
        for request in requests:
            del self._not_begun[request.index]
        self.phase_over.clear()
        self._schedule = Schedule(requests, start_s, self._places(start_s), self._ended)
        self._turn()

    def stop(self, detail: str) -> None:
        """Cancel what is open and give up the rest: everything that the share holds has then been told."""
        now = self._clock()
        rest = [(due.request, due.scheduled_s) for due in self._schedule.take_rest(now)]
        rest += [(request, now) for request in self._not_begun.values()]
        self._not_begun.clear()
        self._client.cut_short(detail)
        for request, scheduled_s in rest:
            self._told(unsent_facts(request, self._begin.worker, scheduled_s, detail, now))

    async def close(self) -> None:
        self._cancel_handles()
        await self._client.close()

    def _places(self, start_s: float) -> list[float] | None:
        begin = self._begin
        if not begin.concurrency:
            return None
        return opening_times(begin.concurrency, begin.ramp_s, start_s)[begin.worker :: begin.num_workers]

    def _turn(self) -> None:
        """Send all that is due, and come back when the next one is."""
        self._cancel_handles()
        for due in self._schedule.take_due(self._clock()):
            self._dispatch(due)
        loop = asyncio.get_running_loop()
        wake_s = self._schedule.next_wake_s()
        delay_s = None if wake_s is None else max(0.0, wake_s - self._clock())
        if delay_s is not None:
            self._timer = loop.call_later(delay_s, self._turn)
        elif self._schedule.is_over:
            self.phase_over.set()
        if delay_s is None or delay_s > SPARE_S:
            self._spare = loop.call_soon(self._prepare_one)

    def _prepare_one(self) -> None:
        self._spare = None
        if self._bodies.prepare_one():
            self._turn()

    def _cancel_handles(self) -> None:
        for handle in (self._timer, self._spare):
            if handle is not None:
                handle.cancel()
        self._timer = self._spare = None

    def _dispatch(self, due: Due) -> None:
        request = due.request
        body = self._bodies.take(request, self._histories.get(request.session, ()) if request.is_next_message else ())
        self._client.send(self._exchange_of(due), body)

    def _exchange_of(self, due: Due) -> Exchange:
        target, worker = self._target, self._begin.worker
        exchange = Exchange(due.request, due.scheduled_s, target.endpoint, target.is_streamed, worker)
        exchange.held_until_s = due.held_until_s
        return exchange

    def _exchange_ended(self, exchange: Exchange) -> None:
        request, done_s = exchange.planned, exchange.done_s
        assert done_s is not None
        self._keep_history(exchange)
        self._told(exchange.facts())
        self._ended[request.index] = done_s
        self._schedule.end(request.index, done_s)
        self._turn()

    def _keep_history(self, exchange: Exchange) -> None:
        """A failed turn is left out: what comes after it goes on from what was answered."""
        request = exchange.planned
        if request.turn >= self._last_turns.get(request.session, 0):
            self._histories.pop(request.session, None)
        elif exchange.has_answer:
            turn = Turn(request, "".join(exchange.texts))
            self._histories.setdefault(request.session, []).append(turn)


def by_phase(requests: Sequence[PlannedRequest]) -> list[PlannedRequest]:
    """In the order in which they are likely to be due."""
    return sorted(requests, key=lambda request: (request.phase is Phase.MEASURED, request.at_s or 0.0, request.index))


def last_turns(requests: Sequence[PlannedRequest]) -> dict[str, int]:
    last: dict[str, int] = {}
    for request in requests:
        if request.is_next_message:
            last[request.session] = max(last.get(request.session, 0), request.turn)
    return last
