"""Attempts: resume from the tokens so far, bounded in number, repaired by levels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.errors import InvariantViolated, Reason
from baton.core.events import ConnectLink, DropLink
from baton.core.ids import AttemptId, Peer, Role
from baton.core.router.events import End
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import SCHEDULER, D, P, prompt, unpacked
from tests.support.routing import RouterRig


def test_g8_a_resumed_request_starts_with_prompt_and_tokens_so_far():
    rig = RouterRig()
    work_id = rig.start(1, max_tokens=8)
    rig.say(D, work_id, 0, 5, 6, 7)
    submit = the(rig.fail(work_id, Reason.PREEMPTED), m.Submit)
    assert submit.id == AttemptId(work_id.request_id, 1)
    assert unpacked(submit.work.prompt) == [*prompt(10, 1), 5, 6, 7]
    assert (submit.work.num_prior, submit.work.max_new_tokens) == (3, 5)


def test_g8_no_token_twice_and_none_missing_across_an_attempt():
    rig = RouterRig()
    old = rig.start(1)
    rig.say(D, old, 0, 5, 6)
    rig.say(D, old, 3, 8)  # 7 is missing: what came early belongs to the old attempt
    rig.fail(old, Reason.PREEMPTED)
    new = rig.placed()
    rig.say(D, old, 2, 99)
    rig.say(D, new, 2, 70, 80, finish="length")
    assert rig.answers[1, 0] == [5, 6, 70, 80]
    assert rig.ends[1].num_attempts == 2


@given(st.data())
def test_g8_and_x2_whatever_fails_the_client_gets_every_token_once_and_one_end(data):
    """The model's answer is fixed; attempts die anywhere, words of old ones come late."""
    rig = RouterRig(max_attempts=1000)
    answer = list(range(500, 508))
    work_id = rig.start(1, max_tokens=8, timeout_s=1e6)
    old: list[AttemptId] = []
    for _ in range(data.draw(st.integers(0, 20))):
        known = len(rig.answers.get((1, 0), []))
        match data.draw(st.sampled_from(["tokens", "late", "preempted", "failed", "reconnect"])):
            case "tokens":
                offset = data.draw(st.integers(0, known))
                end = data.draw(st.integers(offset, 8))
                if end > offset:
                    rig.say(D, work_id, offset, *answer[offset:end], finish="length" if end == 8 else "")
            case "late" if old:
                rig.say(D, data.draw(st.sampled_from(old)), known, 1, 2, 3)
            case "preempted":
                old.append(work_id)
                rig.fail(work_id, Reason.PREEMPTED)
            case "failed":
                old.append(work_id)
                rig.fail(work_id, Reason.TRANSFER_FAILED)
                rig.wake(1.5)
            case "reconnect":
                old.append(work_id)
                rig.down(D)
                rig.wake(1.5)
                rig.up(D)
        if 1 in rig.ends:
            break
        work_id = rig.placed()
    if 1 not in rig.ends:
        rig.say(D, work_id, 0, *answer, finish="length")
    assert rig.answers[1, 0] == answer
    assert rig.ends[1].error is None
    assert rig.core.quiescent()


def test_kvt_05_and_rtr_04_a_failed_attempt_is_dropped_everywhere_and_resumed_at_once_then_after_pauses():
    rig = RouterRig()
    work_id = rig.start(1)
    out = rig.fail(work_id, Reason.TRANSFER_FAILED)
    assert sorted(c.peer for c in only(out, m.Abort)) == ["decode", "prefill", "scheduler"]
    assert the(out, m.Submit).id.attempt == 1
    work_id = rig.placed()
    assert messages(rig.fail(work_id, Reason.TRANSFER_FAILED), m.Submit) == []
    assert rig.core.next_wake is not None
    assert rig.core.next_wake <= rig.now + 0.05
    assert the(rig.wake(0.05), m.Submit).id.attempt == 2


def test_rtr_05_an_attempt_that_was_aborted_is_no_answer():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.fail(work_id, Reason.ABORTED)
    assert rig.ends == {}
    assert rig.answers == {}


def test_failures_are_bounded_and_preemptions_are_not_counted():
    rig = RouterRig(max_attempts=3)
    rig.start(1, timeout_s=1e6)
    for _ in range(10):
        rig.fail(rig.submits[-1].id, Reason.PREEMPTED)
        rig.placed()
    for _ in range(2):
        rig.fail(rig.submits[-1].id, Reason.PEER_LOST)
        rig.wake(1.5)
        rig.placed()
    out = rig.fail(rig.submits[-1].id, Reason.PEER_LOST)
    end = the(out, End)
    assert (end.error, end.numbers) == (Reason.TOO_MANY_ATTEMPTS, {"attempts": 3, "last_reason": Reason.PEER_LOST})


@pytest.mark.parametrize("max_attempts", [1, 3])
@pytest.mark.parametrize("known", [0, 2])
def test_a_grammar_that_fails_is_the_requests_end_and_is_not_tried_again(max_attempts, known):
    rig = RouterRig(max_attempts=max_attempts)
    work_id = rig.start(1)
    if known:
        rig.say(D, work_id, 0, 5, 6)
    out = rig.fail(work_id, Reason.GRAMMAR_FAILED)
    assert only(out, m.Submit) == []
    assert {c.peer for c in only(out, m.Abort)} == {"decode", "prefill", "scheduler"}
    end = the(out, End)
    assert (end.error, end.numbers, end.num_attempts) == (Reason.GRAMMAR_FAILED, {}, 1)
    assert rig.answers.get((1, 0), []) == [5, 6][:known]
    assert rig.core.quiescent()
    for late in (rig.say(D, work_id, known, 7), rig.fail(work_id, Reason.GRAMMAR_FAILED, P)):
        assert only(late, m.Submit, End) == []


def test_a_grammar_that_fails_in_one_choice_ends_all_of_the_request():
    rig = RouterRig()
    work_id = rig.start(1, num_choices=3)
    rig.say(D, work_id, 0, 5, choice=0, finish="stop")
    rig.fail(work_id, Reason.PREEMPTED)
    of_second, of_third = (submit.id for submit in rig.submits[-2:])
    rig.placed(of_second)
    rig.placed(of_third)
    out = rig.fail(of_third, Reason.GRAMMAR_FAILED)
    assert {c.message.id for c in only(out, m.Abort)} == {of_second, of_third}
    assert the(out, End).error is Reason.GRAMMAR_FAILED
    assert rig.core.quiescent()


def test_a_grammar_that_failed_in_an_attempt_that_is_over_changes_nothing():
    rig = RouterRig()
    old = rig.start(1)
    rig.fail(old, Reason.PREEMPTED)
    assert rig.fail(old, Reason.GRAMMAR_FAILED) == []
    rig.say(D, rig.placed(), 0, 5, finish="stop")
    assert rig.ends[1].error is None


def test_g7_and_g8_unfinished_choices_go_on_as_legs_of_their_own():
    rig = RouterRig()
    work_id = rig.start(1, num_choices=3)
    rig.say(D, work_id, 0, 5, choice=0, finish="stop")
    rig.say(D, work_id, 0, 6, 7, choice=1)
    out = rig.fail(work_id, Reason.PREEMPTED)
    submits = messages(out, m.Submit)
    assert [(s.work.first_choice, s.work.num_choices, s.work.num_prior) for s in submits] == [(1, 1, 2), (2, 1, 0)]
    assert len({s.id.request_id for s in submits} | {work_id.request_id}) == 3
    rig.say(D, submits[0].id, 2, 8, choice=1, finish="stop")
    rig.say(D, submits[1].id, 0, 9, choice=2, finish="stop")
    assert rig.answers == {(1, 0): [5], (1, 1): [6, 7, 8], (1, 2): [9]}
    assert rig.ends[1].error is None


def test_an_attempt_that_its_executor_does_not_name_for_a_while_is_resumed():
    rig = RouterRig(settle_s=1.0)
    work_id = rig.start(1, timeout_s=1e6)
    rig.hear(D, m.Holding((work_id,)), after_s=1.0)
    rig.hear(D, m.Holding(()), after_s=1.0)
    assert rig.core.gauges()["legs_placed"] == 1
    rig.hear(D, m.Holding(()), after_s=1.5)
    assert rig.core.gauges()["attempts_failed_peer_lost_total"] == 1


def test_kvt_03_what_an_executor_holds_and_nobody_wants_is_aborted():
    rig = RouterRig()
    assert rig.hear(D, m.Holding((AttemptId(77, 0),))) == [says("decode", m.Abort, id=AttemptId(77, 0))]


def test_an_attempt_on_an_executor_that_cannot_be_heard_is_resumed():
    rig = RouterRig(settle_s=1.0)
    rig.arrive(1, timeout_s=1e6)
    rig.placed(decode=Peer("unreachable", Role.DECODE, 1).life)
    for _ in range(6):
        rig.wake(1.0)
    assert rig.core.gauges()["attempts_failed_peer_lost_total"] == 1


def test_a_lost_decode_executor_fails_its_attempts_at_once():
    rig = RouterRig()
    rig.start(1)
    rig.down(P)
    assert rig.core.gauges().get("attempts_failed_peer_lost_total", 0) == 0
    rig.down(D)
    assert rig.core.gauges()["attempts_failed_peer_lost_total"] == 1


def test_a_reconnecting_executor_hears_what_is_wanted_and_from_where():
    rig = RouterRig()
    work_id = rig.start(1, num_choices=2)
    rig.say(D, work_id, 0, 5, 6, choice=1)
    rig.down(P)
    out = rig.up(P)
    assert out == [says("prefill", m.RouterInventory, live=((work_id, ((0, 0), (1, 2))),))]


def test_rtr_07_after_a_lost_session_a_request_is_submitted_under_its_next_attempt():
    # the first may have been placed, run and ended without the router's hearing of it
    rig = RouterRig()
    rig.arrive(1)
    rig.down(SCHEDULER)
    first = rig.submits[0].id
    assert the(rig.up(SCHEDULER), m.Submit).id == first._replace(attempt=1)


def test_rtr_07_a_new_life_of_the_scheduler_gets_a_fresh_attempt():
    rig = RouterRig()
    rig.arrive(1)
    first = rig.submits[0].id
    rig.down(SCHEDULER)
    submit = the(rig.up(replace(SCHEDULER, epoch=2)), m.Submit)
    assert submit.id == AttemptId(first.request_id, first.attempt + 1)


def test_placed_attempts_outlive_the_scheduler():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.down(SCHEDULER)
    rig.say(D, work_id, 0, 5, finish="stop")
    assert rig.ends[1].error is None


def test_requests_wait_for_a_scheduler_that_is_not_there_yet():
    rig = RouterRig()
    rig.down(SCHEDULER)
    assert only(rig.arrive(1), m.Submit) == []
    assert len(messages(rig.up(SCHEDULER), m.Submit)) == 1


def test_a_place_for_an_attempt_that_is_over_is_given_back():
    rig = RouterRig()
    rig.arrive(1)
    work_id = rig.submits[-1].id
    rig.gone(1)
    out = rig.hear(SCHEDULER, m.Placed(work_id, P.life, D.life))
    assert [c.peer for c in only(out, m.Abort)] == ["prefill", "decode"]


def computing(rig: RouterRig, number: int = 1) -> AttemptId:
    """An attempt whose prompt is computed, without a decode executor."""
    rig.arrive(number)
    return rig.placed(decode=None)


def test_c13_an_attempt_without_a_decode_executor_is_aborted_where_it_is_computed():
    rig = RouterRig()
    computing(rig)
    assert [c.peer for c in only(rig.gone(1), m.Abort)] == ["scheduler", "prefill"]


@pytest.mark.parametrize("is_reserved", [False, True])
def test_rtr_04_an_attempt_depends_on_its_decode_executor_alone_and_before_that_on_who_computes_it(is_reserved):
    rig = RouterRig()
    work_id = computing(rig)
    if is_reserved:
        rig.placed(work_id)
    needed, other = (D, P) if is_reserved else (P, D)
    rig.down(other)
    rig.wake(0.1)
    assert rig.submits[-1].id == work_id
    rig.down(needed)
    rig.wake(1.0)
    assert rig.submits[-1].id == AttemptId(work_id.request_id, 1)


def test_what_is_computed_is_resumed_when_its_executor_does_not_hold_it():
    rig = RouterRig()
    work_id = computing(rig)
    rig.hear(P, m.Holding((work_id,)), 10.0)
    assert rig.submits[-1].id == work_id
    rig.hear(P, m.Holding(()), 10.0)
    rig.wake(1.0)
    assert rig.submits[-1].id == AttemptId(work_id.request_id, 1)


def test_what_is_computed_on_an_executor_that_cannot_be_heard_is_resumed_after_a_while():
    rig = RouterRig()
    rig.arrive(1)
    work_id = rig.placed(prefill=Peer("prefill9", Role.PREFILL, 1).life, decode=None)
    rig.wake(3.0)
    assert rig.submits[-1].id == work_id
    rig.wake(2.0)
    rig.wake(1.0)
    assert rig.submits[-1].id == AttemptId(work_id.request_id, 1)


def test_a_new_session_with_the_scheduler_asks_again_for_what_has_no_decode_executor():
    rig = RouterRig()
    work_id = computing(rig)
    rig.down(SCHEDULER)
    assert [s.id for s in messages(rig.up(SCHEDULER), m.Submit)] == [AttemptId(work_id.request_id, 1)]
    rig.placed()
    rig.down(SCHEDULER)
    assert messages(rig.up(SCHEDULER), m.Submit) == []


def test_the_roster_is_a_level():
    rig = RouterRig()
    out = rig.hear(SCHEDULER, m.Roster((P, D)))
    assert [c.peer.name for c in only(out, ConnectLink)] == ["prefill", "decode"]
    rig.down(D)
    assert only(rig.hear(SCHEDULER, m.Roster((P,))), DropLink) == [DropLink("decode")]
    assert rig.core.executors == (P,)


def test_readiness_names_what_is_missing():
    rig = RouterRig()
    assert rig.core.readiness() == "no pair of executors is linked"
    rig.hear(SCHEDULER, m.Roster((P, D)))
    assert rig.core.readiness() == ""
    rig.down(SCHEDULER)
    assert rig.core.readiness() == "no session with the scheduler"


def test_x1_a_router_without_requests_holds_nothing_of_any():
    rig = RouterRig()
    empty = {name: value for name, value in rig.core.gauges().items() if not name.endswith("_total")}
    for number in range(1, 30):
        work_id = rig.start(number, num_choices=1 + number % 3)
        if number % 2:
            rig.gone(number)
        else:
            for choice in range(1 + number % 3):
                rig.say(D, work_id, 0, 5, finish="stop", choice=choice)
    gauges = rig.core.gauges()
    assert {name: gauges[name] for name in empty} == empty
    assert len(rig.ends) == 29


def test_x1_planted_violations_are_found():
    rig = RouterRig()
    rig.arrive(1)
    rig.core.state.legs.clear()
    with pytest.raises(InvariantViolated):
        rig.core.check_invariants()
    rig = RouterRig()
    rig.arrive(1)
    rig.core.state.streams[1].choices[0].finish = "stop"
    with pytest.raises(InvariantViolated):
        rig.core.check_invariants()


def test_x3_the_same_events_give_the_same_commands():
    rig = RouterRig()
    for number in range(1, 6):
        work_id = rig.start(number, num_choices=1 + number % 2)
        rig.say(P, work_id, 0, 5)
        if number % 3 == 0:
            rig.fail(work_id, Reason.PEER_LOST)
            rig.wake(1.0)
    twin = RouterRig()
    for event, now, out in rig.turns[3:]:
        twin.now = now
        assert twin.do(event) == out


def test_p10_what_a_request_waited_for_prefixes_goes_with_its_next_attempt():
    rig = RouterRig()
    rig.arrive(1)
    work_id = rig.submits[-1].id
    rig.hear(SCHEDULER, m.Placed(work_id, P.life, D.life, waited_ms=300))
    rig.fail(work_id, Reason.PREEMPTED)
    assert rig.submits[-1].waited_ms == 300


def test_p10_an_attempt_that_was_never_placed_may_have_waited_all_the_time():
    rig = RouterRig()
    rig.arrive(1)
    rig.now += 0.25
    rig.down(SCHEDULER)
    rig.up(SCHEDULER)
    assert [submit.waited_ms for submit in rig.submits] == [0, 250]
