"""Counts between bounds: they add up to what was observed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.histogram import Histogram


def test_a_value_at_a_bound_belongs_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.cumulative() == [2, 4, 5]
    assert (histogram.num, histogram.sum) == (5, 7.5)


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (1.0, 1.0)])
def test_bounds_must_grow(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="grow"):
        Histogram(bounds)


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0, 100), unique=True, min_size=1))
def test_every_value_is_counted_once(values: list[float], bounds: list[float]) -> None:
    histogram = Histogram(tuple(sorted(bounds)))
    for value in values:
        histogram.observe(value)
    expected = [sum(value <= bound for value in values) for bound in histogram.bounds]
    assert histogram.cumulative() == [*expected, len(values)]
