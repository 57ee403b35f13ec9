"""Every refusal has one reason and its numbers; nothing that cannot run blocks what can."""

from __future__ import annotations

import pytest

from baton.core.errors import Reason
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, pair_of, unified_of


def test_w6_and_sch_01_a_prompt_that_no_pool_ever_holds_is_refused_at_once_with_its_numbers():
    rig = SchedulerRig()
    pair_of(rig, d={"num_blocks": 8})
    refusal = the(rig.submit(1, work(prompt(40))), m.Refusal)
    assert (refusal.reason, refusal.numbers["largest"]) == (Reason.NEVER_FITS, 8)
    rig.submit(2, work(prompt(10)))
    assert len(rig.where(2)) == 2


@pytest.mark.parametrize(
    ("p", "d", "asked"),
    [
        ({"num_blocks": 8}, {}, work(prompt(40))),
        ({}, {"num_blocks": 8}, work(prompt(40))),
        ({}, {"num_blocks": 8}, work(prompt(20), max_tokens=40)),
        ({}, {"num_slots": 2}, work(prompt(8), num_choices=3)),
    ],
    ids=["prefill pool", "decode pool", "prompt and output", "slots"],
)
def test_sch_01_both_pools_the_whole_life_and_the_slots_count(p, d, asked):
    rig = SchedulerRig()
    pair_of(rig, p=p, d=d)
    assert the(rig.submit(1, asked), m.Refusal).reason is Reason.NEVER_FITS
    assert rig.core.quiescent()


def test_sch_01_and_api_05_exactly_the_whole_pool_fits():
    rig = SchedulerRig()
    unified_of(rig, num_blocks=8)
    rig.submit(1, work(prompt(25), max_tokens=8))
    assert rig.where(1) == ["unified"]
    assert the(rig.submit(2, work(prompt(26), max_tokens=8)), m.Refusal).reason is Reason.NEVER_FITS


def test_c20_a_resumed_request_is_measured_with_what_it_has_generated():
    rig = SchedulerRig()
    unified_of(rig, num_blocks=8)
    rig.submit(1, work([*prompt(25), 1, 2, 3], max_tokens=8, prior=3), attempt=1)
    assert rig.where(1, 1) == ["unified"]


def test_sch_01_waiting_requests_are_measured_again_when_executors_come():
    rig = SchedulerRig()
    rig.up(ROUTER)
    rig.submit(1, work(prompt(100)))
    rig.submit(2, work(prompt(8, 2)))
    out = rig.join(an_executor("unified", Role.UNIFIED, num_blocks=8))
    assert says("router", m.Refusal, id=AttemptId(1, 0), reason=Reason.NEVER_FITS) in out
    assert rig.where(2) == ["unified"]


def test_w6_a_full_queue_refuses_first_attempts_and_takes_later_ones():
    rig = SchedulerRig(max_queued=2)
    rig.up(ROUTER)
    rig.submit(1)
    rig.submit(2)
    refusal = the(rig.submit(3), m.Refusal)
    assert (refusal.reason, refusal.numbers) == (Reason.QUEUE_FULL, {"queued": 2})
    assert rig.submit(4, attempt=1) == []
    assert rig.submit(5, work([*prompt(8), 1], prior=1)) == []
    assert rig.core.gauges()["refused_queue_full_total"] == 1


def test_w6_a_deadline_in_the_queue_is_a_refusal_with_its_wait():
    rig = SchedulerRig()
    pair_of(rig, p={"num_slots": 1})
    rig.submit(1)
    rig.submit(2, time_left_ms=1000)
    assert rig.core.next_wake is not None
    assert rig.core.next_wake <= rig.now + 1.0
    refusal = the(rig.wake(1.0), m.Refusal)
    assert (refusal.id, refusal.reason, refusal.numbers) == (AttemptId(2, 0), Reason.DEADLINE, {"waited_s": 1.0})


def test_w6_and_c28_without_executors_requests_wait_a_bounded_time_and_the_scheduler_wakes_by_itself():
    rig = SchedulerRig(absent_s=10.0)
    rig.up(ROUTER)
    rig.submit(1)
    assert rig.core.next_wake == rig.now + 10.0
    out = rig.wake(10.0)
    assert messages(out, m.Refusal) == [m.Refusal(AttemptId(1, 0), Reason.NO_EXECUTOR, {"absent_s": 10.0})]
    assert messages(rig.submit(2, after_s=1.0), m.Refusal)[0].reason is Reason.NO_EXECUTOR


def test_executors_that_come_in_time_serve_what_waited():
    rig = SchedulerRig(absent_s=10.0)
    rig.up(ROUTER)
    rig.submit(1)
    rig.join(an_executor("unified", Role.UNIFIED), num_blocks=64)
    assert rig.where(1) == ["unified"]
    assert only(rig.wake(20.0), m.Refusal) == []


def test_c5_a_request_without_a_place_now_is_no_reason_to_refuse_the_next():
    rig = SchedulerRig()
    pair_of(rig, p={"num_blocks": 8})
    rig.submit(1, work(prompt(20, 1)))
    assert rig.submit(2, work(prompt(20, 2))) == []
    rig.submit(3, work(prompt(4, 3), max_tokens=1))
    assert [bool(rig.where(number)) for number in (1, 2, 3)] == [True, False, True]
