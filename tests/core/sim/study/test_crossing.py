"""Where one deployment becomes better than another, of made-up curves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.intervals import Estimate
from baton.core.sim.study.crossing import Better, Point, crossings, regions


def point(rate: float, value: float, half: float = 0.1, scale: float = 10.0) -> Point:
    return Point(rate, Estimate(value=value, low=value - half, high=value + half, num_runs=3), scale)


def test_a_difference_counts_where_its_interval_leaves_0_out_and_it_is_a_part_that_matters() -> None:
    assert point(1, 0.5).better is Better.FIRST
    assert point(1, -0.5).better is Better.SECOND
    assert point(1, 0.5, half=0.6).better is Better.NEITHER
    assert point(1, 0.09, half=0.01).better is Better.NEITHER  # certain, and less than 1 % of 10
    assert point(1, 0.0, half=0.0).better is Better.NEITHER
    assert Point(1, Estimate(value=5.0), 10.0).better is Better.NEITHER  # one run that says nothing of its spread


def test_rates_with_one_answer_are_one_region() -> None:
    found = regions([point(1, 0.0), point(2, 0.05), point(4, 0.4), point(8, 2.0, scale=8.0), point(16, -1.0)])
    assert [(each.better, each.begin, each.end) for each in found] == [
        (Better.NEITHER, 1, 2), (Better.FIRST, 4, 8), (Better.SECOND, 16, 16),
    ]  # fmt: skip
    assert found[1].largest.rate == 8


def test_a_crossing_is_where_the_difference_is_0_and_its_interval_where_it_is_certain_on_both_sides() -> None:
    (found,) = crossings([point(2, -1.0, half=0.5), point(4, 1.0, half=0.5)])
    assert found.above is Better.FIRST
    assert found.rate == pytest.approx(3.0)
    assert (found.low, found.high) == (pytest.approx(2.5), pytest.approx(3.5))


def test_the_ends_of_an_interval_without_width_are_in_order_whatever_their_rounding() -> None:
    (found,) = crossings([point(1, 0.5, half=0.0, scale=1.0), point(2, -2.6, half=0.0, scale=1.0)])
    assert found.low <= found.rate <= found.high == pytest.approx(1 + 0.5 / 3.1)


def test_what_lies_between_two_answers_widens_the_interval() -> None:
    (found,) = crossings([point(1, 1.0), point(2, 0.05), point(3, -0.05), point(4, -1.0)])
    assert found.above is Better.SECOND
    assert 2 < found.rate < 3
    assert 1 < found.low < 2
    assert 3 < found.high < 4


def test_no_crossing_where_the_answer_only_begins_or_stops_to_be_certain() -> None:
    assert crossings([point(1, 0.0), point(2, 1.0), point(3, 0.0), point(4, 1.0)]) == []
    assert crossings([]) == []


CURVES = st.lists(
    st.tuples(st.floats(0.01, 100), st.floats(-50, 50), st.floats(0, 20)), min_size=1, max_size=12,
    unique_by=lambda each: each[0],
).map(lambda rows: [point(rate, value, half) for rate, value, half in sorted(rows)])  # fmt: skip


@given(CURVES)
def test_crossings_lie_in_order_between_opposite_answers(points: list[Point]) -> None:
    answers = [each.better for each in points if each.better is not Better.NEITHER]
    found = crossings(points)
    assert len(found) == sum(a is not b for a, b in pairwise(answers))
    before = 0.0
    for crossing in found:
        assert crossing.low <= crossing.rate <= crossing.high
        below = [each for each in points if each.rate <= crossing.low + 1e-9 and each.better is not Better.NEITHER]
        above = [each for each in points if each.rate >= crossing.high - 1e-9 and each.better is not Better.NEITHER]
        assert below[-1].better is crossing.above.other
        assert above[0].better is crossing.above
        assert crossing.low >= before - 1e-9
        before = crossing.high


@given(CURVES)
def test_the_two_in_the_other_order_give_the_same_crossings(points: list[Point]) -> None:
    turned = [
        Point(
            each.rate,
            Estimate(value=-each.difference.value, low=-(each.difference.high or 0), high=-(each.difference.low or 0)),
            each.scale,
        )
        for each in points
    ]
    for a, b in zip(crossings(points), crossings(turned), strict=True):
        assert (a.rate, a.low, a.high) == pytest.approx((b.rate, b.low, b.high))
        assert a.above is b.above.other


@given(CURVES, st.floats(1.0, 10.0))
def test_wider_intervals_never_make_a_crossing_more_certain(points: list[Point], factor: float) -> None:
    wider = [
        point(each.rate, each.difference.value, factor * ((each.difference.high or 0) - each.difference.value))
        for each in points
    ]
    assert len(crossings(wider)) <= len(crossings(points))
