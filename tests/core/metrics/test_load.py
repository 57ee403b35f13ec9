"""A run as a whole: span, requests open at once, rates."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.facts import Failure
from baton.core.metrics.load import Rate, Span, concurrency, open_intervals, request_rate, span_of
from baton.core.metrics.over_time import over_time
from tests.core.metrics.stub import answer, failed


def steady(num: int, every_s: float, long_s: float):
    return [answer([(long_s, 1)], at=index * every_s, index=index) for index in range(num)]


def test_the_span_is_from_the_first_due_time_to_the_last_end():
    rows = [answer([(1.0, 1)], at=3.0, scheduled_s=2.0), failed(Failure.UNSENT, at=9.0), failed(Failure.LOST, at=5.0)]
    assert span_of(rows) == Span(2.0, 5.001)
    assert span_of([failed(Failure.UNSENT, at=9.0)]) == Span(9.0, 9.0)
    assert span_of([]).length_s == 0.0


def test_ldg_04_requests_open_at_once_are_seen_as_they_were():
    """300 at once against a server that takes a second for each."""
    rows = steady(300, 0.0, 1.0) + steady(300, 0.0, 1.0)
    assert concurrency(rows[:300], span_of(rows[:300])).max == 300
    assert concurrency(rows[:300], span_of(rows[:300])).mean == 300.0


def test_one_that_ends_makes_room_for_one_that_begins():
    back_to_back = steady(4, 1.0, 1.0)
    found = concurrency(back_to_back, span_of(back_to_back))
    assert (found.max, found.mean) == (1, 1.0)


def test_failures_and_what_has_no_end_are_open_as_well():
    rows = [failed(Failure.LOST, at=0.0, done_s=4.0), failed(Failure.STALLED, at=1.0, done_s=None)]
    found = concurrency(rows, Span(0.0, 4.0))
    assert (found.max, found.mean) == (2, 7.0 / 4.0)


def test_no_span_has_no_mean():
    assert concurrency([], Span(0.0, 0.0)).mean is None


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 9)), min_size=1, max_size=30))
def test_what_is_open_adds_up(drawn):
    rows = [answer([(long_s, 1)], at=at, index=index) for index, (at, long_s) in enumerate(drawn)]
    span = span_of(rows)
    area = math.fsum(long_s for _, long_s in drawn)
    assert math.fsum(end - begin for begin, end in open_intervals(rows, span)) == pytest.approx(area, abs=1e-9)
    found = concurrency(rows, span)
    assert found.max <= len(rows)
    if found.mean is not None:
        assert found.mean * span.length_s == pytest.approx(area, abs=1e-9)
        assert found.mean <= found.max + 1e-9


def test_rates_are_of_due_and_of_sending():
    rows = [answer([(1.0, 1)], at=2.0 * i, scheduled_s=1.0 * i, index=i) for i in range(5)]
    found = request_rate([*rows, failed(Failure.UNSENT, at=5.0)])
    assert found.asked_per_s == 1.0
    assert found.achieved_per_s == 0.5


def test_a_rate_of_chats_counts_their_beginnings_and_says_so():
    turns = [
        answer([(0.5, 1)], at=4.0 * chat + turn, index=2 * chat + turn, session=f"c{chat}", is_due_by_plan=turn == 0)
        for chat in range(5)
        for turn in range(2)
    ]
    assert request_rate(turns) == Rate(asked_per_s=0.25, achieved_per_s=0.25, what="sessions")
    closed = [msgspec.structs.replace(row, is_due_by_plan=False) for row in turns]
    assert request_rate(closed) == Rate(asked_per_s=None, achieved_per_s=pytest.approx(9 / 17))


def test_all_at_once_has_no_rate():
    assert request_rate(steady(5, 0.0, 1.0)).asked_per_s is None
    assert request_rate([]).achieved_per_s is None


def test_a_run_that_ended_before_anything_was_due_has_no_length_and_no_negative_one():
    unsent = [failed(Failure.UNSENT, index=i, at=20.0 + i, done_s=2.0) for i in range(3)]
    assert span_of(unsent) == Span(20.0, 20.0)
    assert over_time(unsent).due_per_s[0] * over_time(unsent).bin_s == pytest.approx(1.0)
    cut = [answer([(1.0, 1)], at=0.0, index=9), *unsent]
    assert span_of(cut) == Span(0.0, 2.0)
    assert sum(over_time(cut).due_per_s) * over_time(cut).bin_s == pytest.approx(1.0)
