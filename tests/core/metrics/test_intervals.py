"""Intervals: Student's t over runs, batch means within one."""

from __future__ import annotations

import numpy as np
import pytest

from baton.core.metrics.goodput import Slo
from baton.core.metrics.intervals import (
    NOT_NEGATIVE,
    NUM_BATCHES,
    ZERO_TO_ONE,
    Estimate,
    caution,
    estimate,
    headline,
    over_runs,
    range_of,
    student_t,
    within_run,
)
from baton.core.metrics.summary import summarize
from tests.core.metrics.stub import answer, fixed_schedule, renumbered


@pytest.mark.parametrize(
    ("degrees", "published"), [(1, 12.7062), (4, 2.7764), (10, 2.2281), (30, 2.0423), (60, 2.0003), (120, 1.9799)]
)
def test_student_s_t_is_the_published_one(degrees, published):
    assert student_t(degrees + 1) == pytest.approx(published, abs=5e-5)


def test_quantiles_fall_and_join_where_the_table_ends():
    found = [student_t(n) for n in range(2, 200)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(1.972, abs=1e-3)


def test_an_estimate_is_the_mean_and_its_standard_error_times_t():
    found = estimate([1.0, 2.0, 3.0, 4.0])
    half = 3.1824 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert (found.value, found.num_runs) == (2.5, 4)
    assert (found.low, found.high) == (pytest.approx(2.5 - half), pytest.approx(2.5 + half))
    assert found.half_share == pytest.approx(half / 2.5)


def test_one_run_has_no_interval_and_none_is_an_error():
    assert estimate([3.0]) == Estimate(value=3.0)
    assert estimate([3.0]).half_share is None
    with pytest.raises(ValueError, match="no run"):
        estimate([])
    with pytest.raises(ValueError, match="no spread"):
        student_t(1)


def test_no_interval_reaches_beyond_what_its_figure_can_be():
    assert estimate([0.2, 0.9]).low < 0 < 1 < estimate([0.2, 0.9]).high
    bounded = estimate([0.2, 0.9], ZERO_TO_ONE)
    assert (bounded.value, bounded.low, bounded.high) == (pytest.approx(0.55), 0.0, 1.0)
    assert bounded.is_even is False
    assert bounded.half_share is None  # one number after ± would be none of both sides
    assert estimate([1.0, 2.0], NOT_NEGATIVE).low == 0.0
    assert estimate([1.0, 2.0], NOT_NEGATIVE).high == estimate([1.0, 2.0]).high
    assert estimate([5.0, 5.1], NOT_NEGATIVE) == estimate([5.0, 5.1])
    assert estimate([5.0, 5.1]).is_even
    assert not Estimate(value=1.0).is_even


def test_figures_of_two_runs_are_bounded_by_what_they_are():
    runs = [{"ttft_s.p99": 0.1, "goodput.share": 0.2, "prefix_hit_rate": 1.0, "requests_per_s": 0.5},
            {"ttft_s.p99": 0.9, "goodput.share": 0.9, "prefix_hit_rate": 0.8, "requests_per_s": 9.0}]  # fmt: skip
    found = over_runs(runs)
    assert all(each.low is not None and each.low >= 0.0 for each in found.values())
    assert found["goodput.share"].high == found["prefix_hit_rate"].high == 1.0
    assert found["ttft_s.p99"].high > 1.0
    assert range_of("goodput.good_per_s") == range_of("executor_s_per_1000_good_tokens") == NOT_NEGATIVE


def test_within_a_run_no_time_is_negative():
    rows = [answer([(0.001 if index < 90 else 50.0, 1)]) for index in range(100)]
    found = within_run(renumbered(rows))["ttft_s.p50"]
    assert (found.value, found.low) == (0.001, 0.0)


def test_of_two_runs_it_is_said_that_they_tell_little():
    assert "2 runs tell little" in caution(2)
    assert caution(1) == caution(3) == ""


def test_intervals_over_runs_hold_the_truth_as_often_as_they_say():
    draws = np.random.default_rng(7).normal(10.0, 2.0, (2000, 5))
    held = [(found := estimate(row.tolist())).low <= 10.0 <= found.high for row in draws]
    assert 0.94 <= np.mean(held) <= 0.96


def _requests_that_share_a_queue(seed: int, count: int = 1000):
    """TTFT is exp(z) s; z is standard normal and remembers that of the request before by four fifths."""
    shocks = np.random.default_rng(seed).normal(0.0, 1.0, count)
    z, rows = shocks[0], []
    for shock in shocks:
        z = 0.8 * z + 0.6 * shock
        rows.append(answer([(float(np.exp(z)), 1)]))
    return renumbered(rows)


def test_intervals_within_a_run_hold_the_truth_although_requests_share_a_queue():
    found = [within_run(_requests_that_share_a_queue(seed))["ttft_s.p50"] for seed in range(100)]
    assert np.mean([each.low <= 1.0 <= each.high for each in found]) >= 0.88


def test_within_a_run_the_value_is_the_run_s_own_percentile():
    rows = _requests_that_share_a_queue(1)
    found = within_run(rows)
    for name, value in headline(summarize(rows)).items():
        if name in found:
            assert found[name].value == value
            assert found[name].num_runs == 1
    assert {"ttft_s.p50", "ttft_s.p99", "e2e_s.p95"} <= found.keys()


def test_percentiles_beyond_the_values_of_a_part_are_left_out():
    few = within_run(_requests_that_share_a_queue(1, NUM_BATCHES * 10))
    assert {"ttft_s.p50", "ttft_s.p90"} <= few.keys()
    assert not {"ttft_s.p95", "ttft_s.p99", "tpot_s.p50"} & few.keys()
    assert within_run(renumbered([fixed_schedule()] * (NUM_BATCHES - 1))) == {}


def test_figures_that_one_run_lacks_have_no_interval_over_runs():
    whole = headline(summarize(renumbered([fixed_schedule()] * 3), slo=Slo(ttft_s=1.0)))
    found = over_runs([whole, headline(summarize([]))])
    assert {"ttft_s.p50", "output_tokens_per_s", "goodput.share", "prefix_hit_rate"} <= whole.keys()
    assert not found
    assert over_runs([whole, whole])["ttft_s.p50"] == Estimate(
        value=whole["ttft_s.p50"], low=whole["ttft_s.p50"], high=whole["ttft_s.p50"], num_runs=2
    )
    assert over_runs([]) == {}
