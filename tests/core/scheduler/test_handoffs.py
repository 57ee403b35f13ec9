"""Prompts are computed ahead of a full decode executor, and reserved there in order, when they are due."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import ROUTER, prompt, work
from tests.support.scheduling import SchedulerRig, executor, pair_of

KNOBS = {"handoff_lead_steps": 1.0, "handoff_slack": 0.25}


def sized(num_blocks: int, seed: int) -> m.Work:
    """A request that takes so many blocks where it decodes, and as many where its prompt is computed."""
    return work(prompt(4 * num_blocks - 3, seed), max_tokens=4)


def full_pair(**knobs: float) -> tuple[SchedulerRig, object, object]:
    """A decode executor whose only request, number 1, holds eight of its ten blocks."""
    rig = SchedulerRig(**{**KNOBS, **knobs})
    prefill, decode = pair_of(rig, d={"num_blocks": 10})
    rig.submit(1, sized(8, 1))
    assert rig.where(1) == ["prefill", "decode"]
    rig.hear(prefill, m.Credit(0, 0, 29))
    return rig, prefill, decode


def test_a_prompt_is_computed_while_its_decode_executor_is_full_and_handed_off_when_it_has_room():
    rig, prefill, decode = full_pair()
    out = rig.submit(2, sized(4, 2))
    assert only(out, m.Prefill, m.Decode, m.Placed) == [
        says("prefill", m.Prefill, id=AttemptId(2, 0), num_blocks=4),
        says("router", m.Placed, id=AttemptId(2, 0), prefill=prefill.life, decode=None),
    ]
    assert rig.core.gauges()["handoffs"] == 1
    out = rig.ended(decode, 1, 8)
    assert only(out, m.Decode, m.Placed) == [
        says("decode", m.Decode, id=AttemptId(2, 0), prefill=prefill.life, num_blocks=4),
        says("router", m.Placed, id=AttemptId(2, 0), prefill=prefill.life, decode=decode.life),
    ]


def test_whoever_waits_for_a_decode_executor_holds_nothing_of_it():
    rig, _, _ = full_pair()
    rig.submit(2, sized(4, 2))
    assert rig.core._fleet.ledger.available(1)[0] == 2


def test_w4_room_that_is_freed_goes_to_computed_prompts_in_order():
    rig, _, decode = full_pair()
    for number in (2, 3, 4):
        rig.submit(number, sized(4, number), after_s=0.01)
    rig.ended(decode, 1, 8)
    assert [rig.where(number)[1:] for number in (2, 3, 4)] == [["decode"], ["decode"], []]


def test_a_long_prompt_is_reserved_at_once_where_room_is_left_and_else_within_the_lead_of_its_end():
    rig = SchedulerRig(**KNOBS, steps_ahead=100.0)
    prefill, _ = pair_of(rig, p={"token_budget": 8}, d={"num_blocks": 10})
    rig.submit(1, sized(7, 1))  # 25 tokens, four steps; three of ten blocks stay free
    assert rig.where(1) == ["prefill", "decode"]
    rig = SchedulerRig(**KNOBS, steps_ahead=100.0)
    prefill, _ = pair_of(rig, p={"token_budget": 8}, d={"num_blocks": 10})
    rig.submit(1, sized(9, 1))  # 33 tokens
    assert rig.where(1) == ["prefill"]
    rig.hear(prefill, m.Credit(0, 0, 24))
    assert rig.where(1) == ["prefill"]
    rig.hear(prefill, m.Credit(0, 0, 1))  # one step is left
    assert rig.where(1) == ["prefill", "decode"]


def test_a_long_prompt_that_is_not_due_lets_a_computed_one_go_first():
    rig = SchedulerRig(**KNOBS, steps_ahead=100.0)
    slow, decode = pair_of(rig, p={"token_budget": 8}, d={"num_blocks": 10})
    quick = executor("quick", Role.PREFILL)
    rig.join(quick)
    rig.submit(1, sized(9, 1))
    rig.hear(decode, m.PairReady(quick.life))
    rig.submit(2, sized(4, 2), after_s=0.01)
    assert (rig.where(1), rig.where(2)) == (["prefill"], ["quick", "decode"])
    rig.hear(slow, m.Credit(0, 0, 33))
    rig.ended(decode, 2, 4)
    assert rig.where(1) == ["prefill", "decode"]


def test_a_computed_prompt_is_due_whatever_was_predicted():
    """One of a lower class is computed before a long one that came first; parked, it would wait for that for ever."""
    rig = SchedulerRig(**KNOBS, steps_ahead=100.0)
    prefill, _ = pair_of(rig, p={"token_budget": 8}, d={"num_blocks": 10})
    rig.submit(1, sized(9, 1), priority_class=1)
    rig.submit(2, sized(9, 2), priority_class=0)
    rig.hear(prefill, m.Credit(0, 0, 20))
    assert (rig.where(1), rig.where(2)) == (["prefill"], ["prefill"])
    rig.hear(prefill, m.Computed(AttemptId(2, 0)))
    assert rig.where(2) == ["prefill", "decode"]


def test_w4_a_computed_prompt_that_lacks_kv_is_passed_until_its_deadline_then_it_collects():
    rig, prefill, decode = full_pair(bypass_s=5.0)
    rig.submit(2, sized(9, 2))
    rig.hear(prefill, m.Credit(0, 0, 33))
    rig.submit(3, sized(2, 3), after_s=0.01)
    assert rig.where(3) == ["prefill", "decode"]
    rig.ended(decode, 3, 2)
    rig.submit(4, sized(2, 4), after_s=6.0)
    assert rig.where(4) == ["prefill"]
    rig.ended(decode, 1, 8)
    assert (rig.where(2), rig.where(4)) == (["prefill", "decode"], ["prefill"])


def test_a_request_that_its_prefill_executor_ended_waits_for_nobody():
    rig, prefill, decode = full_pair()
    rig.submit(2, sized(4, 2))
    rig.ended(prefill, 2, 4)
    assert (rig.core.gauges()["handoffs"], rig.core.gauges()["placed"]) == (0, 1)
    assert not messages(rig.ended(decode, 1, 8), m.Decode)


def test_an_abort_reaches_who_computes_and_nobody_is_reserved_any_more():
    rig, _, decode = full_pair()
    rig.submit(2, sized(4, 2))
    assert rig.hear(ROUTER, m.Abort(AttemptId(2, 0))) == [says("prefill", m.Abort, id=AttemptId(2, 0))]
    assert not messages(rig.ended(decode, 1, 8), m.Decode)


def test_c13_what_a_decode_executor_has_ended_is_given_up_by_who_computes_it():
    rig, _, decode = full_pair()
    out = rig.hear(decode, m.Ended(AttemptId(1, 0)))
    assert says("prefill", m.Abort, id=AttemptId(1, 0)) in out


def test_rtr_04_a_lost_prefill_executor_takes_its_computed_prompts_along():
    rig, prefill, decode = full_pair()
    rig.submit(2, sized(4, 2))
    rig.down(prefill)
    assert not messages(rig.ended(decode, 1, 8), m.Decode)  # its session is over: nobody can say what it holds
    out = rig.join(prefill)
    assert the(out, m.AttemptFailed) == m.AttemptFailed(AttemptId(2, 0), Reason.PEER_LOST, "prefill")


def test_rtr_04_a_prefill_executor_that_comes_back_with_its_prompts_is_served():
    rig, prefill, decode = full_pair()
    rig.submit(2, sized(4, 2))
    rig.down(prefill)
    rig.ended(decode, 1, 8)
    out = rig.join(prefill, live=((AttemptId(2, 0), 0),))
    assert says("decode", m.Decode, id=AttemptId(2, 0)) in out


def test_a_prompt_whose_pair_closes_for_a_moment_waits_for_it():
    rig, prefill, decode = full_pair()
    rig.submit(2, sized(4, 2))
    assert not messages(rig.hear(decode, m.PairLost(prefill.life, Reason.QUARANTINE)), m.AttemptFailed)
    rig.hear(decode, m.PairReady(prefill.life), 9.0)
    assert not messages(rig.wake(9.0), m.AttemptFailed)
    assert says("decode", m.Decode, id=AttemptId(2, 0)) in rig.ended(decode, 1, 8)


def test_a_prompt_that_nobody_can_decode_any_more_is_resumed_elsewhere():
    rig, prefill, decode = full_pair(absent_s=10.0)
    rig.submit(2, sized(4, 2))
    rig.hear(decode, m.PairLost(prefill.life, Reason.QUARANTINE))
    rig.down(decode)
    assert rig.core.next_wake == rig.now + 10.0
    assert only(rig.wake(10.0), m.AttemptFailed, m.Abort) == [
        says("router", m.AttemptFailed, id=AttemptId(2, 0), reason=Reason.PEER_LOST),
        says("prefill", m.Abort, id=AttemptId(2, 0)),
    ]
    assert rig.core.gauges()["handoffs"] == 0
    assert rig.core.next_wake is None or rig.core.next_wake > rig.now


def test_a_router_that_is_gone_leaves_nothing_that_waits_for_a_decode_executor():
    rig, _, decode = full_pair()
    rig.submit(2, sized(4, 2))
    assert says("prefill", m.Abort, id=AttemptId(2, 0)) in rig.down(ROUTER)
    assert not messages(rig.ended(decode, 1, 8), m.Decode)
