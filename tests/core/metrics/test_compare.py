"""Two runs over the requests common to both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.compare import NotComparable, RunFiles, compare
from baton.core.metrics.facts import Failure
from tests.core.metrics.stub import a_report, answer, failed, fixed_schedule, renumbered, requests


def run(rows, **changes) -> RunFiles:
    return RunFiles(a_report(rows, **changes), rows)


@given(st.lists(requests(), min_size=1, max_size=8))
def test_a_run_is_its_own_equal(drawn):
    rows = renumbered(drawn)
    found = compare(run(rows), run(rows))
    assert (found.num_common, found.only_first, found.only_second, found.neither) == (len(rows), 0, 0, 0)
    assert {"ttft_s", "e2e_s", "longest_gap_s"} <= set(found.differences)
    for difference in found.differences.values():
        assert difference.difference == 0.0
        assert difference.ratio == (1.0 if difference.first else None)


def test_x4_medians_are_of_the_requests_that_succeeded_in_both():
    first = renumbered([answer([(0.1, 1)]), answer([(0.3, 1)]), answer([(9.0, 1)]), failed(Failure.LOST)])
    second = renumbered([answer([(0.2, 1)]), answer([(0.6, 1)]), failed(Failure.REFUSED), failed(Failure.LOST)])
    first.append(failed(Failure.LOST, index=4))
    second.append(fixed_schedule(index=4))
    found = compare(run(first), run(second))
    assert (found.num_common, found.only_first, found.only_second, found.neither) == (2, 1, 1, 1)
    ttft = found.differences["ttft_s"]
    assert (ttft.first, ttft.second) == (pytest.approx(0.2), pytest.approx(0.4))
    assert (ttft.difference, ttft.ratio) == (pytest.approx(0.2), pytest.approx(2.0))
    assert "tpot_s" not in found.differences


def test_requests_are_matched_by_index_in_whatever_order_they_ended():
    rows = renumbered([answer([(0.1 * (i + 1), 1)]) for i in range(5)])
    assert compare(run(rows), run(rows[::-1])).differences["ttft_s"].ratio == 1.0


def test_x4_another_plan_is_refused_and_other_cautions_are_said():
    rows = [fixed_schedule()]
    with pytest.raises(NotComparable):
        compare(run(rows), run(rows, plan_fingerprint="0"))
    assert compare(run(rows), run(rows, machine={"cpu": "other"})).cautions == ("machines differ: cpu",)


def test_nothing_in_common_is_nothing_to_compare():
    with pytest.raises(NotComparable, match=r"no request succeeded in both \(1 in the first, 0 in the second\)$"):
        compare(run([fixed_schedule()]), run([failed(Failure.LOST)]))


def test_records_that_are_lost_are_told_apart_from_requests_that_failed():
    rows = renumbered([fixed_schedule(), fixed_schedule(), fixed_schedule()])
    whole, cut, emptied = (RunFiles(a_report(rows), kept) for kept in (rows, rows[:2], []))
    assert compare(whole, whole).losses == ()
    for found in (compare(whole, cut), compare(cut, whole)):
        assert (found.num_common, found.only_first, found.only_second, found.neither) == (2, 0, 0, 0)
    assert compare(whole, cut).losses == ("the records of the second hold 2 of its 3 requests",)
    with pytest.raises(NotComparable, match=r"nothing to compare.*; the records of the first hold 0 of its 3 requests"):
        compare(emptied, whole)
