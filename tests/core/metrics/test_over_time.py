"""Series: what falls into which bin, and that nothing is lost between them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.definitions import is_success
from baton.core.metrics.facts import Failure
from baton.core.metrics.load import Span, span_of
from baton.core.metrics.over_time import MAX_BINS, over_time
from tests.core.metrics.stub import answer, failed, fixed_schedule, renumbered, requests


def test_what_happened_stands_in_its_bin():
    rows = renumbered(
        [answer([(0.5, 2), (1.5, 4)], at=0.0), answer([(0.25, 2)], at=1.0), failed(Failure.REFUSED, at=2.5)]
    )
    found = over_time(rows, bin_s=1.0, span=Span(0.0, 3.0))
    assert (found.begin_s, found.bin_s) == (0.0, 1.0)
    assert found.due_per_s == (1.0, 1.0, 1.0)
    assert found.succeeded_per_s == (0.0, 2.0, 0.0)
    assert found.failed_per_s == (0.0, 0.0, 1.0)
    assert found.output_tokens_per_s == (2.0, 6.0, 0.0)
    assert found.concurrency == pytest.approx((1.0, 0.75, 0.001))
    assert found.ttft_from_schedule_s["p50"] == (0.5, 0.25, None)
    assert found.e2e_from_schedule_s["p99"] == (1.5, 0.25, None)
    assert found.tpot_s["p90"] == (0.2, None, None)


def test_ldg_01_tokens_of_what_failed_or_was_cancelled_are_not_output():
    good = fixed_schedule()
    rows = renumbered([good, fixed_schedule(failure=Failure.LOST), fixed_schedule(is_cancelled=True)])
    assert over_time(rows, bin_s=1.0).output_tokens_per_s == over_time([good], bin_s=1.0).output_tokens_per_s


def test_a_last_bin_that_is_shorter_has_rates_of_its_own_length():
    found = over_time([answer([(3.25, 5)])], bin_s=2.0)
    assert found.output_tokens_per_s == (0.0, 4.0)
    assert found.concurrency == (1.0, 1.0)


def test_a_rest_of_less_than_half_a_bin_belongs_to_the_last_one():
    found = over_time([answer([(2.5, 5)])], bin_s=2.0)
    assert found.output_tokens_per_s == (2.0,)
    assert found.concurrency == (1.0,)


@pytest.mark.parametrize(("length_s", "bin_s"), [(0.0, 1e-3), (60.0, 0.5), (120.0, 1.0), (121.0, 2.0), (3600.0, 50.0)])
def test_bins_have_round_lengths_and_are_few(length_s, bin_s):
    found = over_time([fixed_schedule()], span=Span(0.0, length_s))
    assert found.bin_s == pytest.approx(bin_s)
    assert 1 <= len(found.due_per_s) <= MAX_BINS


def test_nothing_measured_is_one_empty_bin():
    found = over_time([])
    assert found.due_per_s == found.concurrency == (0.0,)
    assert found.tpot_s["p50"] == (None,)


@given(st.lists(requests(), min_size=1, max_size=10), st.integers(0, 3), st.sampled_from((None, 0.3, 7.0)))
def test_bins_together_are_the_whole(drawn, num_failed, bin_s):
    rows = renumbered([*drawn, *[failed(Failure.LOST, at=50.0)] * num_failed])
    found = over_time(rows, bin_s)
    span = span_of(rows)
    begins = [found.begin_s + index * found.bin_s for index in range(len(found.due_per_s))]
    widths = [end - begin for begin, end in zip(begins, [*begins[1:], max(span.end_s, begins[-1])], strict=True)]
    if span.length_s == 0:
        widths = [found.bin_s]
    for series, whole in (
        (found.due_per_s, len(rows)),
        (found.succeeded_per_s, len(drawn)),
        (found.failed_per_s, num_failed),
        (found.output_tokens_per_s, sum(row.num_output_tokens for row in rows if is_success(row))),
        (found.concurrency, math.fsum(row.done_s - row.sent_s for row in rows)),
    ):
        assert math.fsum(v * w for v, w in zip(series, widths, strict=True)) == pytest.approx(whole, abs=1e-6)
