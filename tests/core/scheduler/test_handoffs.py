"""Prompts are computed ahead of a full decode executor, and reserved there in order, when they are due."""

from __future__ import annotations

import pytest

from baton.core.errors import Reason
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, pair_of

KNOBS = {"handoff_slack": 0.25}


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
    rig, prefill, decode = full_pair()
    for number in (2, 3, 4):
        rig.submit(number, sized(4, number), after_s=0.01)
    for number in (4, 2, 3):
        rig.hear(prefill, m.Due(AttemptId(number, 0)))
    rig.ended(decode, 1, 8)
    assert [rig.where(number)[1:] for number in (2, 3, 4)] == [["decode"], ["decode"], []]


def test_a_prompt_is_reserved_at_once_where_room_is_left_and_else_when_its_end_is_near():
    for num_blocks, expected in ((8, ["prefill", "decode"]), (9, ["prefill"])):
        rig = SchedulerRig(**KNOBS)
        prefill, _ = pair_of(rig, d={"num_blocks": 10})
        rig.submit(1, sized(num_blocks, 1))  # two of ten blocks are to stay free
        assert rig.where(1) == expected
        rig.hear(prefill, m.Due(AttemptId(1, 0)))
        rig.hear(prefill, m.Due(AttemptId(1, 0)))  # said twice, reserved once
        assert rig.where(1) == ["prefill", "decode"]


def test_room_that_becomes_free_early_is_taken_where_enough_is_left():
    rig, _, decode = full_pair()
    rig.submit(2, sized(8, 2))
    rig.ended(decode, 1, 8)
    assert rig.where(2) == ["prefill", "decode"]


def test_a_prompt_that_is_not_due_lets_one_that_is_go_first():
    rig = SchedulerRig(**KNOBS)
    slow, decode = pair_of(rig, d={"num_blocks": 10})
    quick = an_executor("quick", Role.PREFILL)
    rig.join(quick)
    rig.submit(1, sized(9, 1))
    rig.hear(decode, m.PairReady(quick.life))
    rig.submit(2, sized(9, 2), after_s=0.01)
    rig.hear(quick, m.Due(AttemptId(2, 0)))
    assert (rig.where(1), rig.where(2)) == (["prefill"], ["quick", "decode"])
    rig.hear(slow, m.Due(AttemptId(1, 0)))
    rig.ended(decode, 2, 9)
    assert rig.where(1) == ["prefill", "decode"]


def test_the_least_loaded_decode_executor_is_chosen_then_the_one_that_holds_the_prefix():
    rig = SchedulerRig(prefix_wait=False)
    prefill, first = pair_of(rig)
    asked = work(prompt(16, 7), max_tokens=4)
    second = an_executor("decode2", Role.DECODE)
    rig.join(second, pairs=(prefill.life,), cached=asked.hashes)
    rig.submit(1, asked)
    assert rig.where(1) == ["prefill", "decode2"]
    rig.submit(2, asked)
    assert rig.where(2) == ["prefill", "decode"]
    rig.down(second)
    rig.join(second, pairs=(prefill.life,), live=((AttemptId(1, 0), 0),))
    rig.ended(first, 2, 5)
    rig.submit(3, work(prompt(16, 8), max_tokens=4))
    assert rig.where(3) == ["prefill", "decode"]  # the other still decodes 1


def test_a_prompt_goes_where_somebody_has_room_to_decode_it_now():
    rig, _, _ = full_pair()
    other = an_executor("prefill2", Role.PREFILL)
    rig.join(other)
    rig.join(an_executor("decode2", Role.DECODE), pairs=(other.life,))
    rig.submit(2, work(prompt(30, 2), max_tokens=4), after_s=0.01)
    rig.submit(3, sized(4, 3), after_s=0.01)  # the first pair would compute it sooner
    assert (rig.where(2), rig.where(3)) == (["prefill2", "decode2"], ["prefill2", "decode2"])


def test_w4_a_computed_prompt_that_lacks_kv_is_passed_until_its_deadline_then_it_collects():
    rig, prefill, decode = full_pair(bypass_s=5.0)
    rig.submit(2, sized(9, 2))
    rig.hear(prefill, m.Due(AttemptId(2, 0)))
    rig.submit(3, sized(2, 3), after_s=0.01)
    rig.hear(prefill, m.Due(AttemptId(3, 0)))
    assert rig.where(3) == ["prefill", "decode"]
    rig.ended(decode, 3, 2)
    rig.submit(4, sized(2, 4), after_s=6.0)
    rig.hear(prefill, m.Due(AttemptId(4, 0)))
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
    rig.join(prefill, live=((AttemptId(2, 0), 0),))
    assert rig.where(2) == ["prefill", "decode"]


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


@pytest.mark.parametrize("depth", [20, 2000])
def test_c4_nobody_is_visited_that_cannot_be_decoded_now_however_many_wait(depth):
    """Arrivals while the only partner is away, drains or closes its pair; prompts that are not due; too few slots."""
    rig = SchedulerRig(**KNOBS, max_queued=10_000)
    prefill, decode = pair_of(rig, p={"num_slots": 1}, d={"num_blocks": 4096, "num_slots": 2})
    rig.submit(1, sized(2, 1))
    rig.core.check_invariants = lambda: None
    for number in range(2, depth):
        rig.submit(number, sized(2 + number % 5, number % 40))
    placement = rig.core._placer._placement
    tried = []
    real = placement.choose
    placement.choose = lambda waiting, *rest: tried.append(waiting) or real(waiting, *rest)
    rig.hear(decode, m.PairLost(prefill.life, Reason.QUARANTINE))
    rig.hear(prefill, m.Credit(64, 1, 5))
    rig.hear(prefill, m.Credit(0, 0, 0))
    assert len(tried) == 0
    rig.hear(decode, m.PairReady(prefill.life))
    assert 1 <= len(tried) <= 3
