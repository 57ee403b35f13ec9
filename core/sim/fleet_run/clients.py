"""The clients of a performance run: whatever the load says is due is asked, and what comes back is kept as facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from baton.core.errors import InvariantViolated, Reason
from baton.core.metrics.facts import UNKNOWN, Failure, Phase, RequestFacts, TokenChunks
from baton.core.router.events import Arrive, ClientGone, Deliver, DeliverTokens, End
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.request import SimRequest
from baton.core.sim.fleet_run.world import FleetWorld
from baton.core.wire.sampling import SamplingParams

HTTP_OK, HTTP_TOO_MANY, HTTP_UNAVAILABLE = 200, 429, 503
REFUSALS = {Reason.QUEUE_FULL: HTTP_TOO_MANY, Reason.NO_EXECUTOR: HTTP_UNAVAILABLE}


class Indexed(Protocol):
    @property
    def index(self) -> int: ...


class DueLike(Protocol):
    """A request that is to be sent now."""

    @property
    def request(self) -> Indexed: ...
    @property
    def scheduled_s(self) -> float: ...
    @property
    def held_until_s(self) -> float | None: ...


class ScheduleLike(Protocol):
    """Says which request is due when. The load generator's is one."""

    @property
    def is_over(self) -> bool: ...
    def take_due(self, now: float) -> Iterable[DueLike]: ...
    def end(self, index: int, now: float) -> None: ...
    def next_wake_s(self) -> float | None: ...
    def take_rest(self, now: float) -> Iterable[DueLike]: ...


#: of one phase: from its start, and the ends of all requests before, to its schedule
MakeSchedule = Callable[[float, Mapping[int, float]], ScheduleLike]
Told = Callable[[RequestFacts], None]


class _Open:
    """A request that was asked and has no end."""

    __slots__ = ("chunks", "due", "num_input_tokens", "request", "sent_s")

    def __init__(self, request: SimRequest, due: DueLike, sent_s: float, num_input_tokens: int) -> None:
        self.request = request
        self.num_input_tokens = num_input_tokens  #: with what it repeats
        self.due = due
        self.sent_s = sent_s
        self.chunks = TokenChunks()


class Clients:
    """Times of facts count from the run's begin."""

    def __init__(self, requests: Sequence[SimRequest], phases: Sequence[MakeSchedule], told: Told) -> None:
        self.num_ended = 0
        self.began_at = 0.0
        self.ended: dict[int, float] = {}  #: index → when
        self._requests = {request.index: request for request in requests}
        self._phases = list(phases)
        self._told = told
        self._schedule: ScheduleLike | None = None
        self._open: dict[int, _Open] = {}  #: by index, which is the router's id less one
        self._hear: dict[int, Callable[[float], None]] = {}  #: by the router's id: one more token has come at that time
        self._kept: dict[int, bytes] = {}  #: prompt and answer of those that another one repeats
        self._num_repeats = Counter(request.repeats for request in requests)  #: of each, not asked yet
        self._wake_at: float | None = None
        self._world: FleetWorld | None = None

    @property
    def is_over(self) -> bool:
        return self._schedule is not None and self._schedule.is_over and not self._phases

    def begin(self, world: FleetWorld) -> None:
        """The fleet is ready. When the load is over, the world's time pauses."""
        self._world = world
        self.began_at = world.now
        self._begin_phase()

    def heard(self, process: LoopProcess, command: Any) -> None:
        """A router says something to a client."""
        now = process.env.time.now - self.began_at
        if type(command) is DeliverTokens:
            hear = self._hear
            for request_id in command.numbers[::4]:
                hear[request_id](now)
        elif type(command) is Deliver:
            self._open[command.request_id - 1].chunks.add(now, len(command.tokens))
        else:
            self._end(command)

    def cut_short(self) -> None:
        """The run ends now: what is open is told of as cut short, what was never asked as unsent."""
        now = self._time()
        for opened in self._open.values():
            self._told(_facts(opened, None, now))
        schedules = [self._schedule] if self._schedule is not None else []
        for schedule in (*schedules, *(make(now, self.ended) for make in self._phases)):
            for due in schedule.take_rest(now):
                self._told(_unsent(self._requests[due.request.index], due))

    # ---- sending

    def _of(self) -> FleetWorld:
        if self._world is None:
            raise InvariantViolated("the run has not begun")
        return self._world

    def _time(self) -> float:
        """Seconds since the run began."""
        return self._of().now - self.began_at

    def _begin_phase(self) -> None:
        if self._phases:
            self._schedule = self._phases.pop(0)(self._time(), self.ended)
            self._send_due()

    def _send_due(self, now: float = 0.0) -> None:
        """At `now`, where the difference of two times is a rounding earlier."""
        schedule = self._schedule
        if schedule is None:
            return
        now = max(now, self._time())
        for due in schedule.take_due(now):
            self._ask(due, now)
        if schedule.is_over:
            self._begin_phase()
            if self.is_over:
                self._of().env.time.pause()
            return
        wake = schedule.next_wake_s()
        if wake is not None and wake != self._wake_at:
            self._wake_at = wake
            self._of().env.time.at(self.began_at + wake, self._wake, wake)

    def _wake(self, at: float) -> None:
        if self._wake_at == at:
            self._wake_at = None
            self._send_due(at)

    def _ask(self, due: DueLike, now: float) -> None:
        world, request = self._of(), self._requests[due.request.index]
        prompt = request.prompt(self._take_kept(request.repeats))
        if self._num_repeats[request.index]:
            self._kept[request.index] = prompt + request.answer()
        root, hashes = world.wiring.hashes(prompt, 0)
        sampling = SamplingParams(
            max_tokens=request.num_output_tokens, temperature=0.0, seed=request.answer_token, ignore_eos=True
        )
        opened = self._open[request.index] = _Open(request, due, now, len(prompt) // 4)
        self._hear[request.index + 1] = opened.chunks.times.append
        routers = world.routers()
        router = routers[request.index % len(routers)]
        arrive = Arrive(
            request.index + 1, prompt, len(prompt) // 4, root, hashes, sampling, request.num_choices,
            world.spec.timeout_s, request.priority_class, request.tenant,
        )  # fmt: skip
        if intake_s := world.spec.wires.intake_s:
            world.env.time.after(intake_s, router.hand, arrive)
        else:
            router.hand(arrive)
        if request.cancel_after_s is not None:
            world.env.time.after(intake_s + request.cancel_after_s, self._leave, router, request.index)

    def _take_kept(self, index: int | None) -> bytes:
        """What a request is to repeat; the last that repeats it frees it."""
        if index is None:
            return b""
        self._num_repeats[index] -= 1
        return self._kept[index] if self._num_repeats[index] else self._kept.pop(index)

    def _leave(self, router: LoopProcess, index: int) -> None:
        if index in self._open:
            router.hand(ClientGone(index + 1))

    # ---- ends

    def _end(self, end: End) -> None:
        del self._hear[end.request_id]
        opened = self._open.pop(end.request_id - 1)
        request, now = opened.request, self._time()
        self.ended[request.index] = now
        self.num_ended += 1
        self._told(_facts(opened, end, now))
        if self._schedule is not None:
            self._schedule.end(request.index, now)
            self._send_due()


def _facts(opened: _Open, end: End | None, now: float) -> RequestFacts:
    """Without an end: it is cut short by the end of the run."""
    request, due, chunks = opened.request, opened.due, opened.chunks
    error = Reason.ABORTED if end is None else end.error
    is_cancelled = end is None or (error is Reason.ABORTED and request.cancel_after_s is not None)
    failure, status = _failure(error, bool(chunks), is_cancelled)
    return RequestFacts(
        **_planned(request, due),
        dispatched_s=opened.sent_s,
        sent_s=opened.sent_s,
        headers_s=chunks[0].time_s if chunks else None,
        first_event_s=chunks[0].time_s if chunks else None,
        chunks=chunks or (),
        done_s=now,
        status=status,
        num_input_tokens=opened.num_input_tokens,
        num_cached_tokens=UNKNOWN if end is None else end.num_cached_tokens,
        num_output_tokens=chunks.num_tokens,
        finish_reason="length" if error is None else "",
        is_cancelled=is_cancelled,
        is_cut_short=end is None,
        failure=failure,
        detail="" if error is None or end is None else _said(error, end.numbers),
    )


def _said(error: Reason, numbers: Mapping[str, float]) -> str:
    """`NEVER_FITS: blocks 31,252, largest 1,033`."""
    told = ", ".join(f"{name} {value:,.10g}" for name, value in numbers.items())
    return f"{error.name}: {told}" if told else error.name


def _unsent(request: SimRequest, due: DueLike) -> RequestFacts:
    return RequestFacts(**_planned(request, due), failure=Failure.UNSENT, detail="the run ended before it was sent")


def _planned(request: SimRequest, due: DueLike) -> dict[str, Any]:
    return {
        "index": request.index,
        "phase": Phase.MEASURED if request.is_measured else Phase.WARM_UP,
        "session": request.session,
        "turn": request.turn,
        "wanted_output_tokens": request.num_output_tokens,
        "scheduled_s": due.scheduled_s,
        "is_due_by_plan": request.is_due_by_plan,
        "held_until_s": due.held_until_s,
    }


def _failure(error: Reason | None, has_begun: bool, is_cancelled: bool) -> tuple[Failure | None, int]:
    if error is None or is_cancelled:
        return None, HTTP_OK
    if error is Reason.DEADLINE:
        return Failure.TIMEOUT, HTTP_OK if has_begun else HTTP_UNAVAILABLE
    if has_begun:
        return Failure.ERROR_EVENT, HTTP_OK
    if error in REFUSALS:
        return Failure.REFUSED, REFUSALS[error]
    return Failure.HTTP_ERROR, HTTP_UNAVAILABLE
