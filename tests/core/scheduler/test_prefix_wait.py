"""P: whoever shares a prefix that is being computed waits for it, holds nothing meanwhile, and keeps its place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from baton.core.errors import Reason
from baton.core.ids import AttemptId, Role
from baton.core.layout import anchor_of
from baton.core.wire import messages as m
from tests.support.expect import the
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.prefixes import SYSTEM, ask, counted, one_waits, publish, roomy, waiting
from tests.support.scheduling import LAUNCHER, SchedulerRig, pair_of, unified_of

# ---- P7: one computes, all others use it


def test_p7_of_a_burst_with_one_long_prefix_one_computes_it_and_the_others_follow_in_order():
    rig = SchedulerRig()
    unified = roomy(rig)
    for number in range(1, 129):
        rig.submit(number, ask(number), after_s=0.001)
    assert list(rig.placed) == [AttemptId(1, 0)]
    assert (rig.core.gauges()["queued"], waiting(rig)) == (127, 127)
    publish(rig, unified, ask(1), 8)
    rig.hear(unified, m.Credit(0, 0, 36))
    while rig.core.gauges()["queued"]:
        rig.hear(unified, m.Credit(0, 0, 4))
    assert [work_id.request_id for work_id in rig.placed] == list(range(1, 129))
    runs = [message for ((_, message),) in rig.placed.values()]
    assert [run.num_cached for run in runs] == [0] + 127 * [32]
    assert counted(rig, "prefix_wait_tokens_saved") == 127 * 32


def test_p7_a_request_behind_the_burst_that_shares_nothing_is_not_delayed():
    rig = SchedulerRig()
    roomy(rig)
    for number in range(1, 129):
        rig.submit(number, ask(number))
    rig.submit(1000, work(prompt(12, 48)))
    assert rig.where(1000) == ["unified"]


def test_p7_cached_tokens_are_not_charged_so_that_the_followers_fill_one_step():
    rig = SchedulerRig(steps_ahead=1.0)
    unified = roomy(rig, token_budget=64)
    for number in range(1, 21):
        rig.submit(number, ask(number))
    publish(rig, unified, ask(1), 8)
    rig.hear(unified, m.Credit(0, 0, 36))
    assert len(rig.placed) == 1 + 16  # of four tokens each


# ---- P3: it holds nothing and keeps its place


@pytest.mark.parametrize("kind", ["unified", "pair"])
def test_p3_whoever_waits_holds_no_block_and_no_slot_anywhere(kind):
    rig = SchedulerRig()
    unified_of(rig) if kind == "unified" else pair_of(rig)
    rig.submit(1, ask(1))
    before = [rig.core._fleet.ledger.available(e.index) for e in rig.core._fleet]
    assert rig.submit(2, ask(2)) == []
    assert [rig.core._fleet.ledger.available(e.index) for e in rig.core._fleet] == before
    assert not rig.core.quiescent()


def test_p3_it_keeps_its_place_among_those_that_came_later():
    rig = SchedulerRig(steps_ahead=1.2)
    unified = one_waits(rig, token_budget=36)
    rig.submit(10, work(prompt(8, 10)), after_s=0.1)
    rig.submit(3, work(prompt(36, 3)), after_s=0.1)  # waits for steps
    rig.submit(4, work(prompt(36, 4)), after_s=0.1)
    publish(rig, unified, ask(1), 8)
    rig.hear(unified, m.Credit(0, 0, 36))
    assert [work_id.request_id for work_id in rig.placed] == [1, 10, 2, 3]


def test_p3_and_w4_a_lower_class_still_goes_first_when_both_are_demand_again():
    rig = SchedulerRig(steps_ahead=0.1)
    unified = roomy(rig, token_budget=40)
    rig.submit(1, ask(1))
    rig.core._fleet.get("unified").num_pending_tokens = 0  # so that both are asked, and wait
    rig.submit(2, ask(2), priority_class=1)
    rig.submit(3, ask(3), priority_class=0)
    assert waiting(rig) == 2
    publish(rig, unified, ask(1), 8)
    assert rig.where(3) == ["unified"]
    assert rig.where(2) == []


def test_p3_and_c28_it_waits_until_its_own_deadline_and_the_scheduler_wakes_by_itself():
    rig = SchedulerRig(prefix_wait_max_ms=500.0)
    one_waits(rig)
    assert rig.core.next_wake == rig.now + 0.5
    rig.wake(0.5)
    assert rig.where(2) == ["unified"]
    assert counted(rig, "prefix_waits_given_up") == 1
    assert rig.core.next_wake > rig.now + 10  # nothing of the wait is left


def test_p10_nothing_renews_the_deadline_of_a_wait_that_begins_again():
    rig = SchedulerRig(prefix_wait_max_ms=500.0)
    unified = roomy(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2))
    rig.submit(3, ask(3))
    started = rig.now
    rig.wake(0.1)
    rig.ended(unified, 1, 10)
    assert rig.where(2) == ["unified"]
    rig.wake(0.2)
    assert rig.core.next_wake == started + 0.5
    rig.wake(0.2)
    assert rig.where(3) == ["unified"]
    assert counted(rig, "prefix_waits_given_up") == 1


def test_p10_who_gave_up_does_not_wait_for_another_producer():
    rig = SchedulerRig(prefix_wait_max_ms=500.0, steps_ahead=1.2)
    unified = one_waits(rig, token_budget=36)
    rig.submit(3, work(prompt(8, 3)))
    rig.wake(0.5)
    assert rig.where(2) == []  # the executor has work enough ahead
    rig.hear(unified, m.Credit(0, 0, 8))
    assert rig.where(2) == ["unified"]
    assert counted(rig, "prefix_wait_refused_spent") == 1


def test_p10_a_later_attempt_may_wait_no_longer_than_what_is_left_of_the_first_ones_time():
    rig = SchedulerRig(prefix_wait_max_ms=500.0)
    roomy(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2), attempt=1, waited_ms=400)
    assert rig.core.next_wake == pytest.approx(rig.now + 0.1)
    rig.submit(3, ask(3), attempt=1, waited_ms=500)
    assert rig.where(3, attempt=1) == ["unified"]


def test_p3_and_p10_what_was_waited_is_told_to_the_executor_and_to_the_router():
    rig = SchedulerRig()
    unified = roomy(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2), attempt=1, waited_ms=400)
    rig.now += 0.25
    out = publish(rig, unified, ask(1), 8)
    assert the(out, m.Run).waited_ms == 650
    assert the(out, m.Placed).waited_ms == 650


# ---- P5: the producer is lost


def ends(rig: SchedulerRig, peer) -> None:
    rig.ended(peer, 1, 10)


def is_aborted(rig: SchedulerRig, peer) -> None:
    rig.hear(ROUTER, m.Abort(AttemptId(1, 0)))


def has_computed_all(rig: SchedulerRig, peer) -> None:
    rig.hear(peer, m.Credit(0, 0, 36))


def publishes_less(rig: SchedulerRig, peer) -> None:
    publish(rig, peer, ask(1), 5)
    has_computed_all(rig, peer)


@pytest.mark.parametrize("loses", [ends, is_aborted, has_computed_all, publishes_less])
def test_p5_when_the_producer_stops_short_one_of_its_waiters_computes_in_the_same_turn(loses):
    rig = SchedulerRig()
    unified = one_waits(rig)
    rig.submit(3, ask(3))
    rig.submit(4, ask(4))
    loses(rig, unified)
    assert [len(rig.where(number)) for number in (2, 3, 4)] == [1, 0, 0]
    assert counted(rig, "prefix_waits_lost") == 3
    publish(rig, unified, ask(2), 8)
    assert [len(rig.where(number)) for number in (2, 3, 4)] == [1, 1, 1]


def leaves(rig: SchedulerRig, peer) -> None:
    rig.down(peer)


def drains(rig: SchedulerRig, peer) -> None:
    rig.hear(peer, m.Draining())


def lives_again(rig: SchedulerRig, peer) -> None:
    rig.join(replace(peer, epoch=2))


def has_exited(rig: SchedulerRig, peer) -> None:
    rig.up(LAUNCHER)
    rig.down(peer)
    rig.hear(LAUNCHER, m.Exited(peer.life))


@pytest.mark.parametrize("goes", [leaves, drains, lives_again, has_exited])
def test_p5_when_the_executor_goes_one_of_its_waiters_computes_elsewhere_and_the_others_wait_for_that(goes):
    rig = SchedulerRig()
    first = one_waits(rig)
    rig.submit(3, ask(3))
    rig.join(an_executor("u2", Role.UNIFIED, num_blocks=512), num_slots=0)  # no room until now
    goes(rig, first)
    rig.hear(an_executor("u2", Role.UNIFIED, num_blocks=512), m.Credit(0, 16))
    assert len(rig.where(2)) == 1
    assert rig.where(3) == []
    assert waiting(rig) == 1


def test_p5_a_pair_that_closes_lets_the_waiters_go():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2))
    assert waiting(rig) == 1
    rig.hear(decode, m.PairLost(prefill.life, Reason.QUARANTINE))
    assert waiting(rig) == 0


# ---- P6, P8: what wakes a waiter


def test_p8_it_goes_on_when_its_blocks_are_published_whatever_is_left_of_the_producers_prompt():
    rig = SchedulerRig(steps_ahead=10.0)
    unified = roomy(rig)
    rig.submit(1, ask(1, num_own=400))
    rig.submit(2, ask(2))
    publish(rig, unified, ask(1), 7)
    assert rig.where(2) == []
    publish(rig, unified, ask(1), 8, first=7)
    assert rig.where(2) == ["unified"]


def test_p6_each_waits_for_the_last_block_that_it_shares():
    rig = SchedulerRig()
    unified = roomy(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2, shared=SYSTEM[:16]))
    rig.submit(3, ask(3))
    publish(rig, unified, ask(1), 4)
    assert (rig.where(2), rig.where(3)) == (["unified"], [])
    publish(rig, unified, ask(1), 8, first=4)
    assert rig.where(3) == ["unified"]


@pytest.mark.parametrize("depth", [20, 2000])
def test_p6_and_c4_nobody_that_waits_is_visited_until_its_block_comes(depth):
    rig = SchedulerRig(max_queued=10_000)
    unified = roomy(rig)
    rig.core.check_invariants = lambda: None
    for number in range(1, depth):
        rig.submit(number, ask(number))
    placement = rig.core._placer._placement
    tried = []
    real = placement.choose
    placement.choose = lambda entry, *rest: tried.append(entry) or real(entry, *rest)
    rig.hear(unified, m.Credit(4, 1, 1))
    publish(rig, unified, ask(1), 7)
    rig.submit(9000, work(prompt(8, 48)))
    rig.wake(0.1)
    assert len(tried) == 1
    assert rig.core._arrivals.ready.num_visited <= 4


# ---- P1, P12: where the anchor is


def test_p1_the_anchor_is_a_block_border_with_attention_and_a_saved_state_with_recurrent_layers():
    assert [anchor_of(depth, 1) for depth in (0, 1, 7, 8)] == [0, 1, 7, 8]
    assert [anchor_of(depth, 4) for depth in (0, 1, 7, 8)] == [0, 0, 4, 8]


def test_p1_with_saved_states_every_four_blocks_one_waits_for_the_last_state_that_it_shares():
    rig = SchedulerRig()
    peer = an_executor("unified", Role.UNIFIED, num_blocks=512)
    peer = replace(peer, capacity=replace(peer.capacity, checkpoint_blocks=4))
    rig.up(ROUTER)
    rig.join(peer)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2, shared=SYSTEM[:28]))
    rig.submit(3, ask(3, shared=SYSTEM[:12]))
    assert rig.where(3) == ["unified"]  # three blocks are of no use to it
    publish(rig, peer, ask(1), 4)
    assert rig.where(2) == ["unified"]


def test_p12_what_is_placed_for_the_producer_is_the_same_whoever_waits():
    told = []
    for num_waiting in (0, 3):
        rig = SchedulerRig()
        roomy(rig)
        rig.submit(1, ask(1))
        for number in range(num_waiting):
            rig.submit(10 + number, ask(10 + number, num_own=1 + number, shared=SYSTEM[: 8 + 8 * number]))
        told.append(rig.placed[AttemptId(1, 0)])
    assert told[0] == told[1]


def test_p12_only_full_blocks_before_the_last_token_are_waited_for():
    rig = SchedulerRig()
    unified = roomy(rig)
    rig.submit(1, work(SYSTEM, 4))
    rig.submit(2, work(SYSTEM, 4))  # computes its last block in any case
    publish(rig, unified, work(SYSTEM, 4), 7)
    assert rig.where(2) == ["unified"]


def test_p12_of_two_that_compute_the_same_blocks_only_the_first_is_relied_upon():
    """Whoever publishes them second finds its chain taken over by the first, and publishes nothing behind it."""
    rig = SchedulerRig(prefix_wait_max_ms=500.0)
    roomy(rig)
    long = [*SYSTEM, *prompt(32, 47)]
    rig.submit(1, work(SYSTEM, 4))
    rig.submit(2, work(long, 4), waited_ms=500)  # may not wait, so it computes all
    rig.submit(3, work([*long, 5], 4))
    hashes = rig.core._prefixes._on_hash[0]
    assert list(hashes) == [work(SYSTEM, 4).hashes[16 * 6 : 16 * 7]]
