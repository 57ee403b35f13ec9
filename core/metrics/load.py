"""What a run looked like as a whole: how long it was, how many requests were open, how fast they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from baton.core.metrics.facts import RequestFacts

MIN_LENGTH_S = 1e-6


class Span(NamedTuple):
    """Seconds since the run began, `[begin_s, end_s)`."""

    begin_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


class Interval(NamedTuple):
    """A request was open during `[begin_s, end_s)`."""

    begin_s: float
    end_s: float


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were sent and not yet over."""

    mean: float | None  #: over the span
    max: int


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Per second: (n − 1) / (last − first); None for fewer than two, or for all at once.

    Of requests that were due at times of the plan. Where none were, nothing was asked, and what was achieved is of all.
    Of sessions only the first requests are due so: their rate is one of sessions.
    """

    asked_per_s: float | None  #: by when they were due, of those that were taken up
    achieved_per_s: float | None  #: by when they were sent
    what: str = "requests"  #: that are counted; or "sessions"


def per_second(amount: float, length_s: float) -> float | None:
    """None over a time too short for a clock to tell."""
    return amount / length_s if length_s >= MIN_LENGTH_S else None


def span_of(facts: Sequence[RequestFacts]) -> Span:
    """From when the first request was due until the last one was over; of no length if none had been due by then."""
    if not facts:
        return Span(0.0, 0.0)
    begin = min(row.scheduled_s for row in facts)
    return Span(begin, max((begin, *(row.done_s for row in facts if row.done_s is not None))))


def open_intervals(facts: Sequence[RequestFacts], span: Span) -> list[Interval]:
    """One for each request that was sent, cut to the span; one without an end is open until the span's."""
    found = []
    for row in facts:
        if row.sent_s is not None:
            begin = max(row.sent_s, span.begin_s)
            end = min(span.end_s if row.done_s is None else row.done_s, span.end_s)
            if end > begin:
                found.append(Interval(begin, end))
    return found


def concurrency(facts: Sequence[RequestFacts], span: Span) -> Concurrency:
    intervals = open_intervals(facts, span)
    area = sum(end - begin for begin, end in intervals)
    # at equal times the one that ends goes first: [begin, end)
    changes = sorted([(begin, 1) for begin, _ in intervals] + [(end, -1) for _, end in intervals])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return Concurrency(mean=per_second(area, span.length_s), max=most)


def request_rate(facts: Sequence[RequestFacts]) -> Rate:
    planned = [row for row in facts if row.is_due_by_plan]
    return Rate(
        asked_per_s=_rate([row.scheduled_s for row in planned if row.dispatched_s is not None]),
        achieved_per_s=_rate([row.sent_s for row in planned or facts if row.sent_s is not None]),
        what="sessions" if any(row.session for row in planned) else "requests",
    )


def allowed_rate(facts: Sequence[RequestFacts]) -> float | None:
    """The rate asked for, less what the bound on open requests held back: what the client could have achieved."""
    planned = [row for row in facts if row.is_due_by_plan and row.dispatched_s is not None]
    return _rate([row.scheduled_s if row.held_until_s is None else row.held_until_s for row in planned])


def _rate(times: list[float]) -> float | None:
    return per_second(len(times) - 1, max(times) - min(times)) if times else None
