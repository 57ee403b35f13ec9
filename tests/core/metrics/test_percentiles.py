"""Distributions, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.percentiles import PERCENTS, Distribution, describe, describe_weighted, percentile

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(NUMBERS, st.one_of(st.floats(0.0, 100.0), st.sampled_from(sorted(PERCENTS.values()))))
def test_percentiles_are_numpys(numbers, percent):
    ours = percentile(sorted(numbers), percent)
    assert ours == pytest.approx(float(np.percentile(numbers, percent)), rel=1e-12, abs=1e-9)
    assert min(numbers) <= ours <= max(numbers)


@given(NUMBERS)
def test_a_distribution_is_numpys(numbers):
    found = describe(numbers)
    assert found.count == len(numbers)
    assert found.mean == pytest.approx(float(np.mean(numbers)), rel=1e-9, abs=1e-9)
    assert found.std == pytest.approx(float(np.std(numbers)), rel=1e-6, abs=1e-6)
    assert (found.min, found.max) == (min(numbers), max(numbers))
    for name in ("p50", "p90", "p95", "p99"):
        expected = float(np.percentile(numbers, PERCENTS[name]))
        assert getattr(found, name) == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert found.p999 is None


def test_the_last_thousandth_is_said_from_a_thousand_values_on():
    assert describe(range(999)).p999 is None
    assert describe(range(1001)).p999 == pytest.approx(999.0)


def test_nothing_has_no_statistics():
    assert describe([]) == describe_weighted([]) == Distribution(count=0)


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(1, 5)), min_size=1, max_size=40))
def test_weighted_percentiles_are_those_of_each_value_so_many_times(pairs):
    repeated = [value for value, weight in pairs for _ in range(weight)]
    found = describe_weighted((value, float(weight)) for value, weight in pairs)
    assert found.mean == pytest.approx(float(np.mean(repeated)), rel=1e-9, abs=1e-9)
    for name in ("p50", "p90", "p95", "p99"):
        assert getattr(found, name) == np.percentile(repeated, PERCENTS[name], method="inverted_cdf")
