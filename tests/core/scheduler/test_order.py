"""Who goes next: order, overtaking for memory alone, and what waits costs nothing."""

from __future__ import annotations

import pytest

from baton.core.ids import AttemptId, Role
from baton.core.scheduler.queue import MAX_TENANTS
from baton.core.wire import messages as m
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, pair_of, unified_of


def sized(num_blocks: int, seed: int, **fields: int):
    """A request that takes so many blocks where it decodes."""
    return work(prompt(4 * num_blocks - 3, seed), max_tokens=4, **fields)


def placed_order(rig: SchedulerRig) -> list[int]:
    return [work_id.request_id for work_id in rig.placed]


def full(rig: SchedulerRig, num_blocks: int = 10):
    """A unified executor whose only request (number 1000) holds everything."""
    unified = unified_of(rig, num_blocks=num_blocks, num_slots=100, token_budget=4096)
    rig.submit(1000, sized(num_blocks, 40))
    return unified


def test_w4_with_one_tenant_and_class_the_order_is_that_of_arrival():
    rig = SchedulerRig()
    unified = full(rig)
    for number in range(1, 6):
        rig.submit(number, sized(2, number), after_s=0.01)
    rig.ended(unified, 1000, 10)
    assert placed_order(rig) == [1000, 1, 2, 3, 4, 5]


def test_w4_a_lower_class_goes_before_everyone_of_a_higher_one():
    rig = SchedulerRig()
    unified = full(rig)
    for number, cls in ((1, 2), (2, 1), (3, 0), (4, 1)):
        rig.submit(number, sized(2, number), after_s=0.01, priority_class=cls)
    rig.ended(unified, 1000, 10)
    assert placed_order(rig) == [1000, 3, 2, 4, 1]


def test_w4_tenants_share_by_what_they_ask_for_whoever_came_first():
    rig = SchedulerRig()
    unified = full(rig)
    for number in range(1, 5):
        rig.submit(number, sized(2, number), after_s=0.01, tenant="many")
    rig.submit(5, sized(2, 5), after_s=0.01, tenant="few")
    rig.ended(unified, 1000, 10)
    assert placed_order(rig)[1:3] in ([1, 5], [5, 1])


def test_w4_a_resumed_request_keeps_its_first_arrival():
    rig = SchedulerRig()
    unified = full(rig)
    rig.submit(1, sized(2, 1), after_s=1.0)
    rig.submit(2, sized(2, 2), after_s=1.0, attempt=1, age_ms=5000)
    rig.ended(unified, 1000, 10)
    assert placed_order(rig) == [1000, 2, 1]


def test_w4_one_that_lacks_kv_is_passed_by_later_ones_that_fit_until_its_deadline():
    rig = SchedulerRig(bypass_s=5.0)
    unified = unified_of(rig, num_blocks=10, token_budget=4096)
    rig.submit(1, sized(6, 1))
    rig.submit(2, sized(8, 2))
    rig.submit(3, sized(2, 3))
    assert placed_order(rig) == [1, 3]
    rig.submit(4, sized(2, 4), after_s=6.0)
    assert placed_order(rig) == [1, 3]  # from now on 2 collects what is freed
    rig.ended(unified, 3, 2)
    assert placed_order(rig) == [1, 3]
    rig.ended(unified, 1, 6)
    assert placed_order(rig) == [1, 3, 2, 4]


def test_w4_a_resumed_request_goes_before_those_that_were_passed():
    rig = SchedulerRig()
    unified = unified_of(rig, num_blocks=10, token_budget=4096)
    rig.submit(1, sized(9, 1))
    for number in (2, 3):
        rig.submit(number, sized(4, number))
    rig.submit(4, sized(1, 4))  # passes both
    assert placed_order(rig) == [1, 4]
    rig.submit(5, sized(4, 5), attempt=1, age_ms=5000)
    rig.ended(unified, 1, 9)
    assert placed_order(rig) == [1, 4, 5, 2]


def test_w4_without_time_to_pass_nobody_passes_the_first_where_it_collects():
    rig = SchedulerRig(bypass_s=0.0)
    unified = unified_of(rig, num_blocks=10, token_budget=4096)
    rig.submit(1, sized(6, 1))
    rig.submit(2, sized(8, 2))
    rig.submit(3, sized(2, 3))
    assert placed_order(rig) == [1]
    rig.ended(unified, 1, 6)
    assert placed_order(rig) == [1, 2, 3]


def test_w4_an_overdue_request_collects_on_one_executor_and_leaves_the_others_alone():
    rig = SchedulerRig(bypass_s=5.0)
    rig.join(an_executor("u1", Role.UNIFIED, num_blocks=10, token_budget=4096))
    rig.join(an_executor("u2", Role.UNIFIED, num_blocks=10, token_budget=4096))
    rig.submit(1, sized(6, 1))
    rig.submit(2, sized(6, 2))
    rig.submit(3, sized(9, 3))
    rig.submit(4, sized(2, 4))
    rig.submit(5, sized(2, 5), after_s=6.0)
    assert placed_order(rig) == [1, 2, 4, 5]
    assert rig.where(5) == ["u1"]  # which had two blocks left; the four of u2 are kept for 3
    assert rig.submit(6, sized(3, 6)) == []


def test_w4_on_decode_it_collects_only_with_a_prefill_executor_that_it_can_use():
    """Its only large prefill executor is not paired with the large decode executor: that one stays open to others."""
    rig = SchedulerRig(bypass_s=5.0)
    rig.up(ROUTER)
    large_p, small_p = an_executor("p1", Role.PREFILL), an_executor("p2", Role.PREFILL, num_blocks=4)
    rig.join(large_p)
    rig.join(small_p)
    rig.join(an_executor("d1", Role.DECODE, num_blocks=4), pairs=(large_p.life, small_p.life))
    rig.join(an_executor("d2", Role.DECODE, num_blocks=64), pairs=(small_p.life,))
    rig.submit(1, sized(20, 1))
    rig.submit(2, sized(2, 2))
    assert placed_order(rig) == [2]  # 1 may not even be computed: nobody could decode it then
    rig.submit(3, work(prompt(12, 3), max_tokens=8), after_s=6.0)  # fits the large decode executor alone
    assert rig.where(3) == ["p2", "d2"]


def test_w14_waiting_for_steps_ahead_or_a_slot_lets_nobody_pass():
    rig = SchedulerRig(steps_ahead=1.0)
    unified = unified_of(rig, num_blocks=64, token_budget=16)
    for number in range(1, 4):
        rig.submit(number, work(prompt(16, number)))
    rig.submit(4, work(prompt(2, 4)))
    rig.hear(unified, m.Credit(0, 0, 16))
    assert placed_order(rig) == [1, 2]
    assert rig.core.gauges()["queued"] == 2


@pytest.mark.parametrize("depth", [50, 5000])
def test_c4_what_cannot_run_costs_no_visit_however_much_of_it_waits(depth):
    rig = SchedulerRig(max_queued=10_000)
    unified = full(rig)
    core = rig.core
    core.check_invariants = lambda: None
    for number in range(1, depth):
        rig.submit(number, sized(3 + number % 6, number % 40))
    rig.hear(unified, m.Credit(2, 1))
    assert core._arrivals.ready.num_visited <= 40
    rig.submit(9000, sized(2, 7))
    assert placed_order(rig) == [1000, 9000]  # and it hides nobody that can


def test_c4_a_turn_without_credit_looks_at_no_waiting_request_at_all():
    rig = SchedulerRig(max_queued=10_000)
    full(rig)
    rig.core.check_invariants = lambda: None
    for number in range(1, 2000):
        rig.submit(number, sized(3, number % 40))
    visited = []
    rig.core._try_place = lambda *arguments: visited.append(arguments) or False
    rig.wake(1.0)
    assert visited == []


def test_sch_05_and_c13_an_abort_leaves_the_queue_in_the_same_turn():
    rig = SchedulerRig()
    full(rig)
    rig.submit(1, sized(2, 1))
    rig.hear(ROUTER, m.Abort(AttemptId(1, 0)))
    assert rig.core.gauges()["queued"] == 0
    assert rig.hear(ROUTER, m.Abort(AttemptId(1, 0))) == []


def test_c11_tenants_that_are_gone_are_forgotten():
    rig = SchedulerRig()
    pair_of(rig, p={"num_slots": 1})
    rig.submit(0)
    rig.core.check_invariants = lambda: None
    for number in range(1, MAX_TENANTS + 50):
        rig.submit(number, sized(2, 1), tenant=f"tenant {number}")
        rig.hear(ROUTER, m.Abort(AttemptId(number, 0)))
    rig.core._arrivals._virtual_now = 1 << 40
    rig.submit(100_000, sized(2, 1), tenant="last")
    assert len(rig.core._arrivals._finish) <= 2
