"""LDG-02 and the definitions: the exact figures of a server with a fixed schedule, however it cuts its answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from baton.core.metrics.chunk_tokens import chunk_tokens
from baton.core.metrics.definitions import (
    UNITS,
    Figures,
    chunk_gaps,
    failure_of,
    figures,
    is_success,
    token_latencies,
    values,
)
from baton.core.metrics.facts import UNKNOWN, Chunk, Failure, RequestFacts
from tests.core.metrics.stub import answer, failed, fixed_schedule, requests


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("first", [1, 4])
def test_ldg_02_the_first_text_is_the_first_token_and_tokens_of_a_chunk_share_its_gap(first, is_counted):
    found = figures(fixed_schedule(first=first, is_counted=is_counted))
    assert found.ttft_s == pytest.approx(0.1)
    assert found.itl_s == pytest.approx([0.01] * 20)
    assert found.chunk_gap_s == pytest.approx([0.04] * 5)
    assert found.output_tokens == first + 20
    assert found.e2e_s == pytest.approx(0.3)
    assert found.tpot_s == pytest.approx(0.2 / (first + 19))
    assert found.longest_gap_s == pytest.approx(0.04)


def test_ldg_02_other_cuts_of_the_same_stream_have_the_same_token_latencies():
    singles = answer([(0.1 + 0.01 * i, 1) for i in range(21)])
    pairs = answer([(0.1, 1)] + [(0.1 + 0.02 * (i + 1), 2) for i in range(10)])
    uneven = answer([(0.1, 1), (0.11, 1), (0.18, 7), (0.3, 12)])
    for cut in (singles, pairs, uneven):
        found = figures(cut)
        assert found.itl_s == pytest.approx([0.01] * 20)
        assert (found.ttft_s, found.tpot_s, found.output_tokens) == (pytest.approx(0.1), pytest.approx(0.01), 21)


def test_ldg_02_an_answer_of_one_token_has_a_first_token_and_no_latency_between_tokens():
    found = figures(answer([(0.1, 1)]))
    assert found.ttft_s == pytest.approx(0.1)
    assert found.e2e_s == pytest.approx(0.1)
    assert found.tpot_s is None
    assert found.itl_s == ()
    assert found.chunk_gap_s == ()
    assert found.longest_gap_s == 0.0


def test_ldg_02_a_stream_of_a_role_alone_has_no_first_token():
    found = figures(failed(Failure.EMPTY, first_event_s=0.01))
    assert (found.ttft_s, found.ttft_from_schedule_s, found.tpot_s, found.longest_gap_s) == (None, None, None, None)
    assert found.itl_s == ()


def test_ldg_02_without_counts_of_the_server_nothing_is_said_per_token():
    found = figures(fixed_schedule(num_output_tokens=UNKNOWN))
    assert (found.output_tokens, found.tpot_s, found.itl_s) == (None, None, ())
    assert found.chunk_gap_s == pytest.approx([0.04] * 5)


def test_ldg_04_a_wait_in_the_client_counts_from_the_schedule():
    late = figures(fixed_schedule(at=5.0, scheduled_s=3.0, dispatched_s=4.5))
    assert late.ttft_s == pytest.approx(0.1)
    assert late.ttft_from_schedule_s == pytest.approx(2.1)
    assert late.e2e_s == pytest.approx(0.3)
    assert late.e2e_from_schedule_s == pytest.approx(2.3)
    assert late.schedule_lag_s == pytest.approx(2.0)


def test_the_lag_of_what_was_taken_up_and_not_sent_ends_there():
    assert figures(failed(Failure.CONNECT, at=1.0, sent_s=None, dispatched_s=1.25)).schedule_lag_s == 0.25
    assert figures(failed(Failure.UNSENT)).schedule_lag_s is None


def test_the_wait_for_the_end_is_a_gap_as_well():
    assert figures(fixed_schedule(done_s=0.9)).longest_gap_s == pytest.approx(0.6)


def test_chunks_without_a_token_leave_their_gap_to_the_next_one_with_some():
    chunks = (Chunk(1.0, 5, 1), Chunk(1.5, 1, 0), Chunk(2.0, 9, 2), Chunk(3.0, 1, 0))
    facts = RequestFacts(index=0, scheduled_s=0.0, chunks=chunks, num_output_tokens=3)
    assert token_latencies(facts, chunk_gaps(facts)) == (0.5, 0.5)


def test_ldg_01_a_success_needs_a_finish_reason_an_end_and_no_failure():
    good = fixed_schedule()
    assert is_success(good)
    assert failure_of(good) is None
    for changes, failure in (
        ({"finish_reason": ""}, Failure.NO_FINISH),
        ({"done_s": None}, Failure.NO_END),
        ({"failure": Failure.ERROR_EVENT}, Failure.ERROR_EVENT),
        ({"failure": Failure.LOST, "is_cancelled": True}, Failure.LOST),
    ):
        assert failure_of(fixed_schedule(**changes)) is failure
        assert not is_success(fixed_schedule(**changes))


def test_what_this_side_cancelled_is_neither():
    cancelled = fixed_schedule(is_cancelled=True, finish_reason="")
    assert failure_of(cancelled) is None
    assert not is_success(cancelled)


@given(requests())
def test_token_latencies_add_up_to_the_time_between_the_first_and_the_last_chunk(facts):
    found = figures(facts)
    assert math.fsum(found.itl_s) == pytest.approx(facts.chunks[-1].time_s - facts.chunks[0].time_s, abs=1e-9)
    assert len(found.itl_s) == sum((chunk_tokens(facts) or ())[1:])
    assert math.fsum(found.chunk_gap_s) == pytest.approx(math.fsum(found.itl_s), abs=1e-9)
    assert found.longest_gap_s is not None
    assert found.longest_gap_s >= max(found.chunk_gap_s, default=0.0)


def test_values_are_pooled_by_figure_without_the_undefined_ones():
    pooled = values(map(figures, (fixed_schedule(), answer([(0.2, 1)]))))
    assert set(pooled) == set(UNITS) <= set(Figures.__struct_fields__)
    assert len(pooled["itl_s"]) == 20
    assert pooled["ttft_s"] == pytest.approx([0.1, 0.2])
    assert pooled["tpot_s"] == pytest.approx([0.01])
    assert list(pooled["output_tokens"]) == [21.0, 1.0]


def test_ldg_02_an_answer_in_one_piece_has_an_end_and_no_times_within():
    found = figures(answer([(0.3, 20)], is_whole=True))
    assert (found.e2e_s, found.output_tokens) == (pytest.approx(0.3), 20)
    assert (found.ttft_s, found.ttft_from_schedule_s, found.tpot_s, found.longest_gap_s) == (None, None, None, None)
    assert found.itl_s == found.chunk_gap_s == ()


def test_ldg_02_tokens_that_all_came_in_one_chunk_have_no_time_between_them():
    found = figures(answer([(0.3, 20)], done_s=0.4))
    assert (found.ttft_s, found.tpot_s, found.itl_s) == (pytest.approx(0.3), None, ())
