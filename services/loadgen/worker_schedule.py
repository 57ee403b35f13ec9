"""Which request of a worker's share is sent when. Due times are absolute: a late one moves no other."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from baton.services.loadgen.plan import PlannedRequest


class Due(NamedTuple):
    """A request that is to be sent now."""

    request: PlannedRequest
    scheduled_s: float
    held_until_s: float | None = None  #: when there was a place for it, if not yet when it was due


class Schedule:
    """One phase of one worker. Decides without a clock: whoever asks says the time, in seconds since the run began.

    Requests with a time of their own, or after another one's end, go before those that only wait for a place: a
    conversation that has begun goes on before the next begins.
    """

    def __init__(
        self,
        requests: Sequence[PlannedRequest],
        start_s: float,
        places: Sequence[float] | None = None,
        ended: Mapping[int, float] | None = None,
    ) -> None:
        """`places`: times at which places for open requests come to be, ascending; None: there is no bound.
        `ended`: index → end of the requests of earlier phases."""
        self._start_s = start_s
        self._has_bound = places is not None
        self._places = deque(places or ())  #: since when each free place is free, or from when on it will be
        self._ended = dict(ended or {})
        self._timed: list[tuple[float, int, PlannedRequest]] = []  #: heap of (due, index, request)
        self._waiting: dict[int, list[PlannedRequest]] = {}  #: index → requests that come after its end
        self._fresh: deque[PlannedRequest] = deque()  #: due as soon as there is a place
        self._open: set[int] = set()
        for request in requests:
            self._enter(request)

    @property
    def is_over(self) -> bool:
        """Whether all requests were sent and have ended."""
        return not (self._open or self._timed or self._fresh or self._waiting)

    @property
    def num_open(self) -> int:
        return len(self._open)

    def take_due(self, now: float) -> Iterable[Due]:
        """The requests to be sent now, one by one, since the next one's place depends on it."""
        while (due := self._take_one(now)) is not None:
            yield due

    def end(self, index: int, now: float) -> None:
        """A request that was taken has ended: its place is free, and those that come after it have a time."""
        self._open.remove(index)
        self._ended[index] = now
        if self._has_bound:
            self._places.append(now)
            if len(self._places) > 1 and self._places[-2] > now:  # places of a ramp are yet to come
                self._places = deque(sorted(self._places))
        for request in self._waiting.pop(index, ()):
            self._enter(request)

    def next_wake_s(self) -> float | None:
        """When something is due next if no request ends before; None: only an end changes anything."""
        due_s = self._timed[0][0] if self._timed else self._start_s if self._fresh else None
        if due_s is None or not self._has_bound:
            return due_s
        if not self._places:
            return None
        return max(self._places[0], self._start_s if self._fresh else due_s)

    def take_rest(self, now: float) -> list[Due]:
        """Give up: the requests that were never taken, with the time at which they were, or would now be, due."""
        timed = [Due(request, due_s) for due_s, _, request in self._timed]
        waiting = [request for requests in self._waiting.values() for request in requests]
        rest = timed + [Due(request, now) for request in (*self._fresh, *waiting)]
        self._timed.clear()
        self._fresh.clear()
        self._waiting.clear()
        return sorted(rest, key=lambda due: due.request.index)

    def _enter(self, request: PlannedRequest) -> None:
        if request.after is not None and request.after not in self._ended:
            self._waiting.setdefault(request.after, []).append(request)
        elif request.at_s is None and request.after is None:
            self._fresh.append(request)
        else:
            due_s = self._start_s + (request.at_s or 0.0)
            if request.after is not None:
                due_s = max(due_s, self._ended[request.after] + request.think_s)
            heapq.heappush(self._timed, (due_s, request.index, request))

    def _take_one(self, now: float) -> Due | None:
        if now < self._start_s or (self._has_bound and not (self._places and self._places[0] <= now)):
            return None
        held_until_s = None
        if self._timed and self._timed[0][0] <= now:
            due_s, index, request = heapq.heappop(self._timed)
            if self._has_bound and (free_s := self._places.popleft()) > due_s:
                held_until_s = free_s
        elif self._fresh:
            request = self._fresh.popleft()
            index, due_s = request.index, self._start_s
            if self._has_bound:
                due_s = max(due_s, self._places.popleft())
        else:
            return None
        self._open.add(index)
        return Due(request, due_s, held_until_s)


def opening_times(concurrency: int, ramp_s: float, start_s: float) -> list[float]:
    """When each of the places comes to be: evenly, the first at the start, the last when the ramp is over."""
    step_s = ramp_s / (concurrency - 1) if concurrency > 1 else 0.0
    return [start_s + number * step_s for number in range(concurrency)]
