"""What is drawn of the facts: nothing is lost between them and the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.facts import Failure, Phase, RequestFacts
from baton.core.metrics.percentiles import describe
from baton.services.loadgen.html.shapes import (
    MAX_DETAIL_CHARS,
    MAX_DETAILS,
    MAX_LOG_RATIO,
    MAX_ROWS,
    QUANTILES,
    shape,
    shapes,
)

#: what a clock of nanoseconds tells
latencies = st.lists(st.floats(1e-9, 1e4) | st.sampled_from([0.0, 0.25, 0.25 + 1e-16]), min_size=1, max_size=60)


@given(latencies)
def test_every_value_is_in_a_bin_and_the_curve_has_the_reports_percentiles(numbers: list[float]) -> None:
    found = shape(numbers)
    assert sum(found.counts) == len(numbers)
    assert len(found.edges) == len(found.counts) + 1
    assert all(low < high for low, high in zip(found.edges, found.edges[1:], strict=False))
    assert found.has_below == (min(numbers) < found.edges[0])
    assert found.has_below <= found.is_log
    described = describe(numbers)
    for percent, value in ((0.0, described.min), (50.0, described.p50), (99.0, described.p99), (100.0, described.max)):
        assert found.quantiles[QUANTILES.index(percent)] == pytest.approx(value, rel=1e-9, abs=1e-300)


def test_values_far_apart_are_on_a_logarithmic_axis_and_the_smallest_in_the_first_bin() -> None:
    assert not shape([1.0, 2.0, 29.0]).is_log
    found = shape([0.0, 1e-9, 1.0, 100.0])
    assert (found.is_log, found.has_below, found.counts[0]) == (True, True, 2)
    assert (found.edges[0], found.edges[-1]) == (pytest.approx(100.0 / MAX_LOG_RATIO), 100.0)


def test_requests_stand_in_the_order_in_which_they_were_due_with_their_ends() -> None:
    facts = [
        RequestFacts(index=0, scheduled_s=2.0, sent_s=2.0, done_s=3.0, finish_reason="stop"),
        RequestFacts(index=1, scheduled_s=1.0, done_s=1.5, failure=Failure.CONNECT),
        RequestFacts(index=2, scheduled_s=3.0, sent_s=3.1234567, is_cancelled=True),
        RequestFacts(index=3, scheduled_s=0.0, phase=Phase.WARM_UP),
    ]
    rows = shapes(facts).rows
    assert rows.index == (1, 0, 2)
    assert rows.end == ("connect", "succeeded", "cancelled")
    assert rows.sent_s == (None, 2.0, 3.12346)
    assert rows.done_s == (1.5, 3.0, None)


def test_many_requests_are_thinned_out_and_said_so() -> None:
    facts = [RequestFacts(index=index, scheduled_s=float(index)) for index in range(12_001)]
    assert 2 * MAX_ROWS < len(facts) <= 3 * MAX_ROWS
    rows = shapes(facts).rows
    assert len(rows.index) == 4001
    assert len(rows.index) + rows.num_left_out == len(facts)
    assert rows.index[:3] == (0, 3, 6)


def test_failures_are_told_up_to_a_limit_in_a_line_up_to_a_length() -> None:
    facts = [
        RequestFacts(index=index, scheduled_s=0.0, failure=Failure.HTTP_ERROR, status=500, detail="x" * 1000)
        for index in range(MAX_DETAILS + 5)
    ]
    failed = shapes(facts).failed
    assert len(failed) == MAX_DETAILS
    assert failed[0].detail == "x" * MAX_DETAIL_CHARS + "…"


def test_what_has_no_values_has_no_shape() -> None:
    assert shapes([]).distributions == {}
    failed = [RequestFacts(index=0, scheduled_s=0.0, sent_s=0.5, done_s=1.0, failure=Failure.LOST)]
    assert list(shapes(failed).distributions) == ["schedule_lag_s"]
