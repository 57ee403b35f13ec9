"""The search of the highest rate that keeps an SLO."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.facts import Chunk, Failure, RequestFacts
from baton.core.metrics.goodput import NO_SLO, Slo
from baton.core.sim.fleet_run.goodput import highest_rate, kept_share


@given(st.floats(0.0, 6.0), st.floats(0.01, 1.0))
def test_what_is_found_is_kept_and_the_limit_is_no_further_than_it_may_be(limit: float, within: float) -> None:
    asked: list[float] = []

    def keeps(rate: float) -> bool:
        asked.append(rate)
        return rate <= limit

    found = highest_rate(keeps, 5.0, within)
    assert found <= limit
    assert min(limit, 5.0) - found <= within
    assert min(asked) > 0
    assert len(asked) <= 10


@pytest.mark.parametrize("limit", [1.57, 1.65, 1.71])
def test_a_published_search_gives_the_lower_end_of_its_last_interval(limit: float) -> None:
    """0 to 5 within 0.25: whatever fails first between 1.5625 and 1.71875 is told as 1.5625."""
    assert highest_rate(lambda rate: rate < limit, 5.0, 0.25) == 1.5625


def answered(index: int, first_s: float, step_s: float) -> RequestFacts:
    chunks = tuple(Chunk(first_s + step_s * number, 0, 1) for number in range(5))
    return RequestFacts(
        index=index, scheduled_s=0.0, dispatched_s=0.0, sent_s=0.0, headers_s=first_s, first_event_s=first_s,
        chunks=chunks, done_s=chunks[-1].time_s, status=200, num_input_tokens=8, num_output_tokens=5,
        finish_reason="length",
    )  # fmt: skip


def test_each_bound_is_judged_apart_and_a_failure_keeps_none() -> None:
    late_first = [answered(index, 0.3, 0.05) for index in range(2)]
    slow_tokens = [answered(index, 0.1, 0.2) for index in range(2, 5)]
    good = [answered(index, 0.1, 0.05) for index in range(5, 9)]
    failed = RequestFacts(index=9, scheduled_s=0.0, sent_s=0.0, done_s=1.0, failure=Failure.REFUSED)
    facts = [*late_first, *slow_tokens, *good, failed]
    assert kept_share(facts, Slo(ttft_s=0.2, tpot_s=0.1)) == pytest.approx(0.6)
    assert kept_share(facts, Slo(ttft_s=0.2)) == pytest.approx(0.7)
    assert kept_share(facts, NO_SLO) == 0.0
