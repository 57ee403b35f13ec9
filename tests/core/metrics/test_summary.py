"""LDG-01, LDG-04: what counts, what does not, and what stands beside it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import InvariantViolated
from baton.core.metrics.facts import UNKNOWN, Failure, Phase
from baton.core.metrics.load import Span
from baton.core.metrics.summary import summarize
from tests.core.metrics.stub import answer, failed, fixed_schedule, renumbered, requests

BAD = {
    Failure.ERROR_EVENT: {},
    Failure.NO_END: {},
    Failure.NO_FINISH: {},
    Failure.EMPTY: {"chunks": ()},
    Failure.REFUSED: {"chunks": (), "status": 503},
    Failure.LOST: {},
}


def a_fifth_fails(failure: Failure, **changes):
    """Every fifth ends early, after 100 ms, as a server would have it that fails fast."""
    rows = []
    for index in range(100):
        row = fixed_schedule(at=0.05 * index, index=index)
        if index % 5 == 4:
            row = msgspec.structs.replace(
                row, failure=failure, done_s=row.sent_s + 0.1, **{"chunks": row.chunks[:1], **changes}
            )
        rows.append(row)
    return rows


@pytest.mark.parametrize("failure", BAD)
def test_ldg_01_failures_are_counted_by_class_and_change_no_figure_of_the_others(failure):
    rows = a_fifth_fails(failure, **BAD[failure])
    found = summarize(rows)
    good = summarize([row for row in rows if row.failure is None])
    assert (found.counts.planned, found.counts.succeeded, found.counts.failed) == (100, 80, 20)
    assert found.counts.failures == {failure.value: 20}
    for name, distribution in found.distributions.items():
        if name != "schedule_lag_s":
            assert distribution == good.distributions[name]
    assert found.throughput.output_tokens_per_s == pytest.approx(80 * 21 / found.span.length_s)


def test_ldg_01_an_answer_that_breaks_off_raises_no_throughput():
    rows = renumbered([fixed_schedule(), fixed_schedule(failure=Failure.NO_FINISH)])
    one = summarize(rows[:1])
    assert summarize(rows).throughput == one.throughput


def test_classes_stand_with_the_most_frequent_first():
    rows = renumbered([failed(f) for f in (Failure.LOST, Failure.REFUSED, Failure.EMPTY, Failure.REFUSED)])
    assert list(summarize(rows).counts.failures.items()) == [("refused", 2), ("empty", 1), ("lost", 1)]


def test_the_fixed_schedule_has_exactly_its_figures():
    rows = [fixed_schedule(at=1.0 * index, index=index) for index in range(11)]
    found = summarize(rows)
    itl, ttft = found.distributions["itl_s"], found.distributions["ttft_s"]
    assert (ttft.count, ttft.p50, ttft.p99) == (11, pytest.approx(0.1), pytest.approx(0.1))
    assert (itl.count, itl.mean, itl.p99) == (220, pytest.approx(0.01), pytest.approx(0.01))
    assert found.span == Span(0.0, pytest.approx(10.3))
    assert found.throughput.requests_per_s == pytest.approx(11 / 10.3)
    assert found.throughput.output_tokens_per_s == pytest.approx(231 / 10.3)
    assert found.throughput.input_tokens_per_s == pytest.approx(176 / 10.3)
    assert found.rate.asked_per_s == found.rate.achieved_per_s == 1.0
    assert (found.concurrency.max, found.concurrency.mean) == (1, pytest.approx(3.3 / 10.3))
    assert found.degraded == found.notes == ()
    assert found.goodput is None


def test_warm_up_counts_nowhere():
    warm = failed(Failure.LOST, index=1, at=0.0, phase=Phase.WARM_UP, done_s=90.0)
    measured = fixed_schedule(at=100.0)
    assert summarize([warm, measured]) == summarize([measured])


def test_ldg_04_what_was_started_is_what_ended_and_each_request_ends_once():
    """Stopped in the middle: started = completed + cancelled."""
    rows = [answer([(1.0, 2)], at=0.5 * index, index=index) for index in range(6)]
    rows += [answer([(1.0, 2)], at=3.0, index=6, is_cancelled=True, finish_reason="")]
    counts = summarize(rows).counts
    assert (counts.planned, counts.succeeded, counts.failed, counts.cancelled) == (7, 6, 0, 1)
    with pytest.raises(InvariantViolated):
        summarize([*rows, rows[3]])


def test_ldg_04_prefix_hits_are_said_and_taken_from_the_input():
    rows = renumbered([fixed_schedule(num_cached_tokens=cached) for cached in (0, 16, 8)])
    found = summarize(rows)
    assert found.prefix_hit_rate == 0.5
    assert found.throughput.input_tokens_per_s == pytest.approx(48 / 0.3)
    assert found.throughput.uncached_input_tokens_per_s == pytest.approx(24 / 0.3)


def test_ldg_04_a_client_that_is_late_is_said_to_be_degraded():
    rows = [fixed_schedule(at=1.0 * index + 0.2, scheduled_s=1.0 * index, index=index) for index in range(5)]
    found = summarize(rows)
    assert found.distributions["schedule_lag_s"].p99 == pytest.approx(0.2)
    assert found.degraded == ("schedule lag p99 of the client is 200.0 ms, limit 50.0 ms",)
    assert summarize(rows, max_lag_s=0.5).degraded == ()


def test_ldg_04_a_rate_that_was_not_reached_is_said():
    rows = [fixed_schedule(at=2.0 * index, scheduled_s=1.0 * index, index=index) for index in range(5)]
    assert summarize(rows, max_lag_s=9.0).degraded == ("0.50 requests/s were sent, 1.00 were due",)


def test_the_lag_is_that_of_failures_too():
    rows = [fixed_schedule(), failed(Failure.REFUSED, index=1, at=1.0, scheduled_s=0.0)]
    assert summarize(rows).distributions["schedule_lag_s"].max == 1.0


def test_what_the_server_does_not_say_is_undefined_and_noted():
    rows = renumbered([fixed_schedule(), fixed_schedule(num_output_tokens=UNKNOWN, num_cached_tokens=UNKNOWN)])
    found = summarize(rows)
    assert found.throughput.output_tokens_per_s is None
    assert found.throughput.uncached_input_tokens_per_s is None
    assert found.throughput.input_tokens_per_s is not None
    assert found.prefix_hit_rate == 0.0
    assert [note.split(":")[0] for note in found.notes] == [
        "1 of 2 successes do not say their output tokens",
        "1 of 2 successes do not say their cached tokens",
    ]


def test_nothing_measured_has_no_figures():
    found = summarize([])
    assert found.counts.planned == 0
    assert found.throughput.requests_per_s is None
    assert {distribution.count for distribution in found.distributions.values()} == {0}


def test_a_span_may_be_given():
    assert summarize([fixed_schedule()], span=Span(0.0, 21.0)).throughput.output_tokens_per_s == 1.0


@given(st.lists(requests(), max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_facts_does_not_matter(drawn, chance):
    rows = renumbered(drawn)
    mixed = list(rows)
    chance.shuffle(mixed)
    assert summarize(mixed) == summarize(rows)


def test_ldg_04_what_the_end_of_the_run_cut_short_is_said_and_degrades_it():
    rows = [fixed_schedule(), fixed_schedule(is_cancelled=True, is_cut_short=True), failed(Failure.UNSENT)]
    rows.append(fixed_schedule(is_cancelled=True))
    found = summarize(renumbered(rows))
    assert (found.counts.cancelled, found.counts.cut_short, found.counts.is_whole) == (2, 1, False)
    assert found.degraded == (
        "1 of 4 requests were cut short by the end of the run: figures are of the shorter answers",
        "1 of 4 requests were not sent",
    )
    as_planned = summarize(renumbered([rows[0], rows[3]]))
    assert (as_planned.counts.cut_short, as_planned.counts.is_whole, as_planned.degraded) == (0, True, ())


def test_ldg_04_a_load_that_waits_for_answers_asks_for_no_rate():
    """Each is due when the one before it is over, and takes longer and longer to be sent."""
    rows = [
        fixed_schedule(at=1.02**index * index + 0.04, scheduled_s=1.0 * index, index=index, is_due_by_plan=index == 0)
        for index in range(12)
    ]
    found = summarize(rows, max_lag_s=9.0)
    assert (found.rate.asked_per_s, found.degraded) == (None, ())
    closed = [msgspec.structs.replace(row, is_due_by_plan=False) for row in rows]
    assert summarize(closed).rate.achieved_per_s == pytest.approx(11 / (1.02**11 * 11))


def test_ldg_04_what_a_bound_holds_back_is_said_and_is_not_the_clients_fault():
    """One at a time, half as fast as they are due."""
    rows = [
        fixed_schedule(at=2.0 * i, scheduled_s=1.0 * i, held_until_s=2.0 * i if i else None, index=i) for i in range(5)
    ]
    found = summarize(rows)
    assert (found.rate.asked_per_s, found.rate.achieved_per_s, found.degraded) == (1.0, 0.5, ())
    assert found.distributions["schedule_lag_s"].max == 4.0
    assert found.notes == (
        "the bound on open requests held back 4 of 5 requests when they were due, by up to 4,000 ms: figures from the "
        "schedule have the wait",
    )
    late = [msgspec.structs.replace(row, sent_s=row.sent_s + 0.2) for row in rows]
    assert summarize(late).degraded == ("schedule lag p99 of the client is 200.0 ms, limit 50.0 ms",)


def test_answers_of_other_lengths_than_asked_for_are_said_with_their_numbers():
    rows = [fixed_schedule(wanted_output_tokens=wanted) for wanted in (21, 128, 128, 20)]
    assert summarize(renumbered(rows)).notes == (
        "2 of 4 answers are shorter than asked for: 42 tokens in place of 256",
        "1 of 4 answers are longer than asked for: 21 tokens in place of 20",
    )
    few = [fixed_schedule(wanted_output_tokens=21) for _ in range(100)] + rows[1:2]
    assert summarize(renumbered(few)).notes == ()
