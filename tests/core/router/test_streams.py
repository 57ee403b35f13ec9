"""The client's stream: tokens merged by offset, old attempts dropped, one end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.ids import AttemptId, Peer, Role
from baton.core.router.events import Deliver, DeliverTokens, End
from baton.core.router.streams import part_id, wire_id
from baton.core.wire import messages as m
from baton.core.wire.tokens import SampledToken
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import ROUTER, SCHEDULER, D, P
from tests.support.routing import RouterRig


def test_a_request_is_submitted_delivered_and_ended():
    rig = RouterRig()
    assert only(rig.arrive(1), m.Submit) == [says("scheduler", m.Submit, time_left_ms=60_000, age_ms=0)]
    work_id = rig.placed()
    assert only(rig.say(P, work_id, 0, 5), Deliver) == [like(Deliver, request_id=1, offset=0, finish="")]
    out = rig.say(D, work_id, 0, 5, 6, 7, finish="length")
    assert only(out, Deliver, End) == [like(Deliver, offset=1, finish="length"), like(End, request_id=1, error=None)]
    assert rig.core.quiescent()


def test_the_end_says_how_long_each_stage_took_that_was_reached():
    rig = RouterRig()
    rig.arrive(1)
    rig.wake(0.5)
    work_id = rig.placed()
    rig.wake(0.25)
    rig.say(P, work_id, 0, 5)
    rig.wake(0.125)
    rig.say(D, work_id, 1, 6)
    rig.wake(1.0)
    assert only(rig.say(D, work_id, 2, 7, finish="length"), End) == [
        like(End, stages_ms={"queued_ms": 500.0, "prefill_ms": 250.0, "transfer_ms": 125.0, "decode_ms": 1000.0})
    ]


def test_a_request_that_failed_in_the_queue_was_only_queued():
    rig = RouterRig()
    rig.arrive(1)
    rig.wake(0.5)
    assert only(rig.gone(1), End) == [like(End, stages_ms={})]


def test_g1_the_second_token_may_come_before_the_first():
    rig = RouterRig()
    work_id = rig.start(1)
    assert only(rig.say(D, work_id, 1, 6), Deliver) == []
    out = rig.say(P, work_id, 0, 5)
    assert [len(deliver.tokens) for deliver in only(out, Deliver)] == [2]
    assert rig.answers[1, 0] == [5, 6]


@given(st.data())
def test_g1_in_whatever_order_and_however_often_records_come_the_answer_is_the_same(data):
    rig = RouterRig()
    work_id = rig.start(1, max_tokens=8)
    answer = list(range(50, 58))
    cuts = data.draw(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)), max_size=8))
    parts = [(offset, answer[offset : offset + count]) for offset, count in cuts] + [(0, answer)]
    for offset, tokens in data.draw(st.permutations(parts)):
        finish = "length" if offset + len(tokens) == 8 else ""
        rig.say(data.draw(st.sampled_from([P, D])), work_id, offset, *tokens, finish=finish)
    assert rig.answers[1, 0] == answer
    assert rig.ends[1].error is None


def test_g1_and_rtr_07_records_of_an_old_attempt_are_dropped_and_their_sender_told():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.fail(work_id, Reason.PREEMPTED)
    assert rig.say(D, work_id, 0, 5) == [says("decode", m.Abort, id=work_id)]
    assert rig.answers == {}
    assert rig.core.gauges()["records_of_old_attempts_total"] == 1


def test_x2_the_first_end_wins_and_later_words_change_nothing():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.say(D, work_id, 0, 5, finish="stop")
    assert rig.ends[1].error is None
    for out in (rig.fail(work_id, Reason.PEER_LOST), rig.gone(1), rig.stop_at(1, 0)):
        assert only(out, End, Deliver) == []
    rig.say(D, work_id, 1, 6)
    assert rig.answers[1, 0] == [5]


def test_g2_a_stop_ends_the_choice_at_the_offset_and_goes_to_both_holders():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.say(D, work_id, 0, 5, 6, 7)
    out = rig.stop_at(1, 2)
    assert only(out, m.Stop) == [
        says("prefill", m.Stop, id=work_id, choice=0, offset=2),
        says("decode", m.Stop, id=work_id, choice=0, offset=2),
    ]
    assert rig.ends[1].error is None
    assert rig.say(D, work_id, 3, 8) == [says("decode", m.Abort, id=work_id)]


def test_g2_a_stop_while_the_next_attempt_is_queued_takes_it_back_from_the_scheduler():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.say(D, work_id, 0, 5, 6)
    rig.fail(work_id, Reason.PREEMPTED)
    out = rig.stop_at(1, 1)
    assert says("scheduler", m.Abort, id=AttemptId(work_id.request_id, 1)) in out
    assert rig.ends[1].error is None


def test_g2_a_stop_of_one_choice_before_its_place_is_known_follows_when_it_is():
    rig = RouterRig()
    rig.arrive(1, num_choices=2)
    work_id = rig.submits[-1].id
    rig.say(P, work_id, 0, 5)
    rig.stop_at(1, 1)
    rig.turns.clear()
    rig.placed(work_id)
    assert says("decode", m.Stop, id=work_id, choice=0, offset=1) in rig.turns[-1][2]


def test_g6_and_rtr_02_an_end_that_came_from_the_prefill_executor_ends_the_decode_executors_wait():
    rig = RouterRig()
    work_id = rig.start(1, max_tokens=1)
    out = rig.say(P, work_id, 0, 5, finish="length")
    assert only(out, m.Abort, End) == [says("decode", m.Abort, id=work_id), like(End, error=None)]


def test_str_04_a_request_ends_when_its_last_choice_does():
    rig = RouterRig()
    work_id = rig.start(1, num_choices=3)
    rig.say(D, work_id, 0, 5, finish="stop", choice=1)
    rig.say(D, work_id, 0, 6, 7, finish="length", choice=0)
    assert rig.ends == {}
    assert only(rig.say(D, work_id, 0, 8, finish="stop", choice=1), Deliver) == []
    rig.say(D, work_id, 0, 9, finish="stop", choice=2)
    assert rig.ends[1].error is None
    assert rig.finishes == {(1, 0): "length", (1, 1): "stop", (1, 2): "stop"}


def test_str_04_a_record_of_a_choice_that_was_not_asked_for_is_ignored():
    rig = RouterRig()
    work_id = rig.start(1)
    assert rig.say(D, work_id, 0, 5, choice=7) == []


def test_api_07_requests_of_one_client_have_wire_ids_of_their_own():
    rig = RouterRig()
    first, second = rig.start(1), rig.start(2)
    assert first.request_id != second.request_id
    rig.say(D, first, 0, 5, finish="stop")
    rig.say(D, second, 0, 6, finish="stop")
    assert rig.answers == {(1, 0): [5], (2, 0): [6]}


def test_api_07_two_lives_of_a_router_never_use_one_wire_id():
    lives = [Peer(name, Role.ROUTER, epoch) for name in ("a", "b") for epoch in (1, 2)]
    ids = {make(life, number) for life in lives for make in (wire_id, part_id) for number in (1, 2)}
    assert len(ids) == 16


def test_a_request_has_one_name_in_all_logs_whatever_it_is_split_into():
    rig = RouterRig()
    work_id = rig.start(7, num_choices=2)
    assert work_id.request_id == wire_id(ROUTER, 7)
    out = rig.fail(work_id, Reason.PREEMPTED)
    parts = [submit.id.request_id for submit in messages(out, m.Submit)]
    assert len({work_id.request_id, *parts}) == 3
    out = rig.gone(7)
    assert [note.request_id for note in only(out, Note)] == [wire_id(ROUTER, 7)]


def test_cached_tokens_of_the_first_attempt_are_told_with_the_end():
    rig = RouterRig()
    work_id = rig.start(1)
    token = (m.SampledToken(0, 5),)
    rig.hear(P, m.Records((m.Record(work_id, 0, 0, token, "", 8),)))
    rig.say(D, work_id, 0, 5, 6, finish="stop")
    assert rig.ends[1].num_cached_tokens == 8


def test_w6_a_router_that_is_full_refuses_with_its_number():
    rig = RouterRig(max_streams=1)
    rig.arrive(1)
    assert only(rig.arrive(2), m.Submit, End) == [End(2, Reason.QUEUE_FULL, {"streams": 1}, 0, 0)]


def test_a_router_counts_answers_since_each_may_become_an_attempt_of_its_own():
    rig = RouterRig(max_streams=4)
    rig.arrive(1, num_choices=3)
    assert the(rig.arrive(2, num_choices=2), End).numbers == {"streams": 3}
    assert not only(rig.arrive(3), End)


def test_a_refusal_ends_the_request_with_its_reason_and_numbers():
    rig = RouterRig()
    rig.arrive(1)
    refusal = m.Refusal(rig.submits[-1].id, Reason.NEVER_FITS, {"blocks": 9.0})
    assert the(rig.hear(SCHEDULER, refusal), End) == End(1, Reason.NEVER_FITS, {"blocks": 9.0}, 0, 1)


def test_g5_and_sch_05_a_client_that_left_or_does_not_read_ends_everywhere_at_once():
    for reason in (Reason.ABORTED, Reason.STALLED):
        rig = RouterRig()
        work_id = rig.start(1)
        out = rig.gone(1, reason=reason)
        assert only(out, m.Abort, End) == [
            says("scheduler", m.Abort, id=work_id),
            says("prefill", m.Abort, id=work_id),
            says("decode", m.Abort, id=work_id),
            like(End, request_id=1, error=reason),
        ]
        assert rig.core.quiescent()
        assert rig.core.gauges()[f"ended_{reason.name.lower()}_total"] == 1


def test_the_deadline_is_fixed_at_arrival_and_ends_the_request():
    rig = RouterRig()
    rig.start(1, timeout_s=5.0)
    rig.wake(4.9)
    assert rig.ends == {}
    assert rig.core.next_wake is not None
    out = rig.wake(0.1)
    assert the(out, End).error is Reason.DEADLINE
    assert len(messages(out, m.Abort)) == 3


def test_what_the_scheduler_hears_is_the_time_left_and_the_age():
    rig = RouterRig()
    work_id = rig.start(1, timeout_s=5.0)
    rig.now += 2.0
    rig.fail(work_id, Reason.PREEMPTED)
    assert (rig.submits[-1].time_left_ms, rig.submits[-1].age_ms) == (3000, 2000)


def test_h10_the_closing_line_says_when_each_stage_was_reached_on_the_hosts_clock():
    rig = RouterRig()
    rig.arrive(1)
    began = rig.now
    rig.wake(0.5)
    work_id = rig.placed()
    rig.wake(0.25)
    rig.say(P, work_id, 0, 5)
    rig.wake(0.125)
    rig.say(D, work_id, 1, 6)
    (under_way,) = rig.core.unfinished()
    assert "last_token_ms" in under_way.numbers
    rig.wake(1.0)
    (note,) = only(rig.say(D, work_id, 2, 7, finish="length"), Note)
    assert (note.what, note.request_id) == ("request ended", under_way.request_id)
    assert note.numbers == {
        "arrived_s": began,
        "placed_ms": 500.0,
        "first_token_ms": 750.0,
        "handed_over_ms": 875.0,
        "last_token_ms": 1875.0,
        "ended_ms": 1875.0,
        "output_tokens": 3,
        "attempts": 1,
    }
    assert rig.core.unfinished() == []


def test_plain_tokens_of_many_requests_are_delivered_in_one_command():
    rig = RouterRig()
    ids = [rig.start(number) for number in (1, 2, 3)]
    for work_id in ids:
        rig.say(P, work_id, 0, 5)
        rig.say(D, work_id, 1, 6)
    out = rig.say_rows(D, *[(work_id, 0, 2, 7) for work_id in ids])
    assert [deliver.request_id for deliver in the(out, DeliverTokens).delivers()] == [1, 2, 3]
    assert list(rig.answers.values()) == [[5, 6, 7]] * 3


def test_plain_tokens_before_one_that_is_not_are_delivered_before_it():
    rig = RouterRig()
    first, second = rig.start(1), rig.start(2)
    for work_id in (first, second):
        rig.say(P, work_id, 0, 5)
    rig.say(D, first, 1, 6)
    out = rig.say_rows(D, (first, 0, 2, 7), (second, 0, 2, 8), (second, 0, 1, 6), (first, 0, 3, 9))
    assert only(out, DeliverTokens, Deliver) == [
        DeliverTokens((1, 0, 2, 7)),
        Deliver(2, 0, 1, (SampledToken(0, 6), SampledToken(0, 8))),
        DeliverTokens((1, 0, 3, 9)),
    ]


def test_rows_that_come_twice_or_too_early_are_delivered_once_and_in_order():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.say(P, work_id, 0, 5)
    rig.say(D, work_id, 1, 6)
    out = rig.say_rows(D, (work_id, 0, 2, 7), (work_id, 0, 2, 7), (work_id, 0, 4, 9))
    assert only(out, DeliverTokens, Deliver) == [DeliverTokens((1, 0, 2, 7))]
    rig.say_rows(D, (work_id, 0, 3, 8))
    assert rig.answers[1, 0] == [5, 6, 7, 8, 9]


def test_a_row_of_an_old_attempt_is_dropped_and_aborted():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.say(P, work_id, 0, 5)
    rig.say(D, work_id, 1, 6)
    rig.fail(work_id, Reason.PREEMPTED)
    assert only(rig.say_rows(D, (work_id, 0, 2, 7)), DeliverTokens, Deliver, m.Abort) == [says("decode", m.Abort)]
    assert rig.answers[1, 0] == [5, 6]


@given(st.data())
def test_rows_do_what_the_records_of_the_same_tokens_do(data):
    """Doubled, early, of others than the home: all but how many commands it takes to say it."""
    by_records, by_rows = RouterRig(), RouterRig()
    for rig in (by_records, by_rows):
        for number in (1, 2):
            rig.start(number, num_choices=2, max_tokens=40)
    ids = [submit.id for submit in by_rows.submits[:2]]
    steps = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 6), st.sampled_from((P, D)))
    for request, choice, offset, peer in data.draw(st.lists(steps, max_size=30)):
        after_s = 0.25
        by_records.wake(after_s)
        by_rows.wake(after_s)
        token = 100 * choice + offset
        by_records.hear(peer, m.Records((m.Record(ids[request], choice, offset, (SampledToken(choice, token),)),)))
        by_rows.say_rows(peer, (ids[request], choice, offset, token))
        assert by_records.answers == by_rows.answers
    for number in (1, 2):
        lines = [the(rig.gone(number), Note).numbers for rig in (by_records, by_rows)]
        assert lines[0] == lines[1]
        assert by_records.ends[number] == by_rows.ends[number]
