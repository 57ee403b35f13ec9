"""Goodput: what keeps its objectives, of all that was asked for."""

from __future__ import annotations

import pytest

from baton.core.metrics.facts import UNKNOWN, Failure
from baton.core.metrics.goodput import Slo
from baton.core.metrics.summary import summarize
from tests.core.metrics.stub import answer, failed, fixed_schedule, renumbered


def goodput(rows, **bounds):
    found = summarize(renumbered(rows), slo=Slo(**bounds)).goodput
    assert found is not None
    return found


def test_ldg_01_failures_and_refusals_stay_in_the_denominator_and_the_cancelled_do_not():
    rows = [fixed_schedule(), failed(Failure.REFUSED), failed(Failure.LOST), fixed_schedule(is_cancelled=True)]
    found = goodput(rows, ttft_s=1.0)
    assert (found.num_judged, found.num_good, found.share) == (3, 1, pytest.approx(1 / 3))
    assert found.attainment == {"ttft_s": pytest.approx(1 / 3)}
    assert found.good_per_s == pytest.approx(1 / 0.3)


def test_ldg_04_bounds_count_from_the_schedule():
    late = fixed_schedule(at=5.0, scheduled_s=0.0)
    assert goodput([late], ttft_s=1.0).num_good == 0
    assert goodput([late], e2e_s=1.0).num_good == 0
    assert goodput([late], ttft_s=5.2, e2e_s=5.4).num_good == 1


def test_a_request_is_good_that_keeps_every_bound():
    slow_start, slow_tokens = fixed_schedule(scheduled_s=-1.0), answer([(0.1, 1), (4.1, 2)])
    found = goodput([slow_start, slow_tokens, fixed_schedule()], ttft_s=0.5, tpot_s=0.02)
    assert found.num_good == 1
    assert found.attainment == {"ttft_s": pytest.approx(2 / 3), "tpot_s": pytest.approx(2 / 3)}


def test_the_slow_tokens_of_a_request_decide_about_its_token_latency():
    one_stall = answer([(0.1 + 0.01 * i + (1.0 if i > 10 else 0.0), 1) for i in range(21)])
    assert goodput([one_stall], itl_s=0.5).num_good == 0
    assert goodput([one_stall], tpot_s=0.07).num_good == 1


def test_bounds_are_kept_at_equality():
    assert goodput([answer([(0.5, 1)])], ttft_s=0.5, e2e_s=0.5).num_good == 1


def test_one_token_keeps_bounds_between_tokens_and_unknown_counts_do_not():
    assert goodput([answer([(0.1, 1)])], tpot_s=0.001, itl_s=0.001).num_good == 1
    unknown = fixed_schedule(num_output_tokens=UNKNOWN)
    assert goodput([unknown], tpot_s=9.0).num_good == goodput([unknown], itl_s=9.0).num_good == 0


def test_nobody_judged_has_no_share():
    found = goodput([fixed_schedule(is_cancelled=True)], ttft_s=1.0)
    assert (found.num_judged, found.share, found.attainment) == (0, None, {})


def test_what_the_end_of_the_run_cut_short_is_judged_and_keeps_nothing():
    rows = [fixed_schedule(), fixed_schedule(is_cancelled=True, is_cut_short=True)]
    found = goodput(rows, ttft_s=1.0)
    assert (found.num_judged, found.share, found.attainment) == (2, 0.5, {"ttft_s": 0.5})
    failed_before = fixed_schedule(failure=Failure.LOST, is_cancelled=True, is_cut_short=True)
    assert goodput([failed_before], ttft_s=1.0).num_judged == 1


def test_bounds_between_tokens_are_not_kept_where_no_time_between_them_is_known():
    for rows in ([answer([(0.3, 20)], is_whole=True)], [answer([(0.3, 20)])]):
        found = goodput(rows, tpot_s=9.0, itl_s=9.0)
        assert (found.num_good, found.attainment) == (0, {"tpot_s": 0.0, "itl_s": 0.0})
    assert summarize([answer([(0.3, 20)], num_cached_tokens=0)]).notes == (
        "1 of 1 answers of more than one token came in one chunk: TPOT and ITL leave them out or are undefined, "
        "and they keep no bound of either",
    )
    assert goodput([answer([(0.3, 1)], is_whole=True)], tpot_s=9.0, itl_s=9.0).num_good == 1
