"""Words of attempts that are over, deadlines of requests that have ended, and a scheduler that is away."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.ids import AttemptId
from baton.core.router.events import Deliver, End
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says
from tests.support.machines import SCHEDULER, D
from tests.support.routing import RouterRig

UNKNOWN = AttemptId(99, 3)


def test_a_place_for_an_attempt_that_is_over_is_given_back_by_whoever_holds_it():
    rig = RouterRig()
    out = rig.hear(SCHEDULER, m.Placed(UNKNOWN, D.life, None))
    assert only(out, m.Abort) == [says("decode", m.Abort, id=UNKNOWN)]


def test_a_refusal_of_an_attempt_that_is_over_ends_nothing():
    rig = RouterRig()
    work_id = rig.start(1)
    assert only(rig.hear(SCHEDULER, m.Refusal(UNKNOWN, Reason.NEVER_FITS)), End) == []
    rig.say(D, work_id, 0, 5, finish="stop")
    assert rig.ends[1].error is None


def test_x2_two_choices_that_fail_in_one_turn_end_their_request_once():
    rig = RouterRig(max_attempts=2)
    rig.start(1, num_choices=2)
    rig.down(D)  # each choice is an attempt of its own from now on
    rig.up(D)
    for submitted in rig.submits[-2:]:
        rig.placed(submitted.id)
    rig.down(D)
    assert rig.ends[1].error is Reason.TOO_MANY_ATTEMPTS


def test_an_attempt_that_ends_of_the_deadline_elsewhere_ends_the_request():
    rig = RouterRig()
    work_id = rig.start(1, timeout_s=60.0)
    assert messages(rig.fail(work_id, Reason.DEADLINE), m.Submit) == []
    assert rig.ends[1].error is Reason.DEADLINE


def test_a_deadline_is_nothing_to_a_request_that_has_ended():
    rig = RouterRig()
    work_id = rig.start(1, timeout_s=1.0)
    rig.say(D, work_id, 0, 5, finish="stop")
    assert only(rig.wake(5.0), End, Deliver) == []


def test_a_request_that_ends_in_the_pause_before_its_next_attempt_makes_none():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.fail(work_id, Reason.PEER_LOST)  # the next attempt comes at once
    rig.fail(rig.placed(), Reason.PEER_LOST)  # and the one after it in a while
    rig.gone(1)
    assert messages(rig.wake(5.0), m.Submit) == []


def test_a_client_that_leaves_while_the_scheduler_is_away_is_told_to_whoever_holds_its_attempt():
    rig = RouterRig()
    work_id = rig.start(1)
    rig.down(SCHEDULER)
    aborted = [message.id for message in messages(rig.gone(1), m.Abort)]
    assert aborted == [work_id, work_id]  # at both executors
