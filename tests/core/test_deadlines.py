"""Deadlines: the earliest at once, each returned once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.deadlines import Deadlines


def test_nothing_is_due_without_deadlines():
    deadlines: Deadlines[int] = Deadlines()
    assert deadlines.first is None
    assert deadlines.due(1e9) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9))), st.lists(st.integers(0, 60)))
def test_each_deadline_is_due_once_when_its_time_has_come_earliest_first(entries, times):
    deadlines: Deadlines[int] = Deadlines()
    for at, key in entries:
        deadlines.push(float(at), key)
    got = []
    for now in [*sorted(times), 100]:
        due = deadlines.due(float(now))
        assert deadlines.first is None or deadlines.first > now
        got += due
    assert got == [key for _, key in sorted(entries)]
