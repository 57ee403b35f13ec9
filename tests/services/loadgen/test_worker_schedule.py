"""When requests are due: absolute times, bounds, ramps and turns."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.worker_schedule import Schedule, opening_times


def request(index: int, **fields: Any) -> PlannedRequest:
    return PlannedRequest(index=index, max_tokens=1, **fields)


def taken(schedule: Schedule, now: float) -> list[tuple[int, float]]:
    return [(due.request.index, due.scheduled_s) for due in schedule.take_due(now)]


def test_due_times_are_absolute_so_that_a_late_turn_moves_no_other() -> None:
    schedule = Schedule([request(index, at_s=index * 1.0) for index in range(4)], 10.0)
    assert taken(schedule, 9.9) == []
    assert schedule.next_wake_s() == 10.0
    assert taken(schedule, 12.5) == [(0, 10.0), (1, 11.0), (2, 12.0)]
    assert schedule.next_wake_s() == 13.0


def test_a_closed_loop_sends_the_next_request_when_a_place_is_free() -> None:
    schedule = Schedule([request(index) for index in range(4)], 1.0, opening_times(2, 0.0, 1.0))
    assert taken(schedule, 1.5) == [(0, 1.0), (1, 1.0)]
    assert schedule.next_wake_s() is None
    schedule.end(1, 3.0)
    assert taken(schedule, 3.5) == [(2, 3.0)]
    schedule.end(0, 4.0)
    schedule.end(2, 4.5)
    assert taken(schedule, 5.0) == [(3, 4.0)]
    assert not schedule.is_over
    schedule.end(3, 6.0)
    assert schedule.is_over


def test_a_ramp_opens_places_evenly_until_the_bound_is_reached() -> None:
    assert opening_times(5, 8.0, 1.0) == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert opening_times(1, 8.0, 1.0) == [1.0]
    schedule = Schedule([request(index) for index in range(6)], 1.0, opening_times(3, 4.0, 1.0))
    assert taken(schedule, 1.0) == [(0, 1.0)]
    assert schedule.next_wake_s() == 3.0
    schedule.end(0, 2.0)
    assert taken(schedule, 2.0) == [(1, 2.0)]
    assert taken(schedule, 5.0) == [(2, 3.0), (3, 5.0)]
    assert schedule.num_open == 3


def test_a_rate_with_a_bound_keeps_the_plan_s_time_of_those_that_wait() -> None:
    schedule = Schedule([request(index, at_s=index * 1.0) for index in range(3)], 0.0, opening_times(1, 0.0, 0.0))
    assert taken(schedule, 2.0) == [(0, 0.0)]
    schedule.end(0, 5.0)
    assert taken(schedule, 5.0) == [(1, 1.0)]


def test_without_a_bound_all_are_due_at_the_start() -> None:
    schedule = Schedule([request(0), request(1)], 2.0)
    assert schedule.next_wake_s() == 2.0
    assert taken(schedule, 2.0) == [(0, 2.0), (1, 2.0)]


def test_a_turn_is_due_its_think_time_after_the_end_of_the_one_before() -> None:
    schedule = Schedule([request(0, at_s=0.0), request(1, after=0, think_s=2.0), request(2, after=1, at_s=9.0)], 1.0)
    assert taken(schedule, 50.0) == [(0, 1.0)]
    assert schedule.next_wake_s() is None
    schedule.end(0, 4.0)
    assert schedule.next_wake_s() == 6.0
    assert taken(schedule, 6.0) == [(1, 6.0)]
    schedule.end(1, 7.0)
    assert taken(schedule, 10.0) == [(2, 10.0)]


def test_a_turn_whose_predecessor_was_of_an_earlier_phase_is_due_at_the_start() -> None:
    schedule = Schedule([request(5, after=1, think_s=1.0)], 10.0, None, {1: 3.0})
    assert taken(schedule, 10.0) == [(5, 10.0)]


def test_a_conversation_that_has_begun_goes_on_before_the_next_begins() -> None:
    requests = [request(0), request(1, after=0), request(2), request(3, after=2)]
    schedule = Schedule(requests, 0.0, opening_times(1, 0.0, 0.0))
    order = []
    for now in range(1, 5):
        [(index, _)] = taken(schedule, float(now))
        order.append(index)
        schedule.end(index, now + 0.5)
    assert order == [0, 1, 2, 3]


def test_what_was_never_taken_is_given_up_with_the_time_at_which_it_was_due() -> None:
    requests = [request(0, at_s=1.0), request(1, after=0), request(2), request(3, at_s=7.0)]
    schedule = Schedule(requests, 1.0, opening_times(1, 0.0, 1.0))
    assert taken(schedule, 2.0) == [(0, 2.0)]
    assert [(due.request.index, due.scheduled_s) for due in schedule.take_rest(4.0)] == [(1, 4.0), (2, 4.0), (3, 8.0)]
    schedule.end(0, 5.0)
    assert schedule.is_over


@given(
    st.lists(st.tuples(st.sampled_from(["at", "free", "after"]), st.floats(0, 5)), max_size=25),
    st.integers(0, 4),
    st.floats(0, 3),
    st.data(),
)
def test_every_request_is_taken_once_never_early_and_within_the_bound(
    kinds: list[tuple[str, float]], concurrency: int, ramp_s: float, data: st.DataObject
) -> None:
    requests = []
    for index, (kind, time_s) in enumerate(kinds):
        after = index - 1 if kind == "after" and index else None
        requests.append(request(index, at_s=time_s if kind == "at" else None, after=after, think_s=time_s))
    places = opening_times(concurrency, ramp_s, 1.0) if concurrency else None
    schedule = Schedule(requests, 1.0, places)
    seen: list[int] = []
    is_open: list[int] = []
    now = 0.0
    while not schedule.is_over:
        wake_s = schedule.next_wake_s()
        if is_open and (wake_s is None or data.draw(st.booleans())):
            now += data.draw(st.floats(0, 2))
            schedule.end(is_open.pop(data.draw(st.integers(0, len(is_open) - 1))), now)
        else:
            assert wake_s is not None
            now = max(now, wake_s)
        for due in schedule.take_due(now):
            assert 1.0 <= due.scheduled_s <= now
            seen.append(due.request.index)
            is_open.append(due.request.index)
        assert not concurrency or len(is_open) <= concurrency
        assert schedule.num_open == len(is_open)
    assert sorted(seen) == list(range(len(requests)))


def test_what_waits_for_a_place_when_it_is_due_says_until_when() -> None:
    requests = [*(request(index, at_s=index * 1.0) for index in range(3)), request(3, after=2), request(4)]
    schedule = Schedule(requests, 0.0, opening_times(1, 0.0, 0.0))
    held = []
    for now in (0.5, 2.0, 3.5, 6.0, 7.0):
        [due] = schedule.take_due(now)
        held.append((due.request.index, due.held_until_s))
        schedule.end(due.request.index, now + 0.5)
    assert held == [(0, None), (1, None), (2, 2.5), (3, None), (4, None)]
    assert [made.is_due_by_plan for made in requests] == [True, True, True, False, False]
