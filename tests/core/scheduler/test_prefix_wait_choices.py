"""P: who waits for a prefix and who does not, where it goes then, and how every wait ends."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.errors import Reason
from baton.core.events import Span
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.prefixes import SYSTEM, ask, counted, one_waits, publish, roomy, waiting
from tests.support.scheduling import SchedulerRig, pair_of

# ---- P2: only where it pays


def two(rig: SchedulerRig, **pace: float):
    """Two unified executors; number 1 computes the shared blocks on the first."""
    rig.up(ROUTER)
    peers = [an_executor(name, Role.UNIFIED, num_blocks=512, token_budget=64) for name in ("u1", "u2")]
    for peer in peers:
        rig.join(peer)
        rig.hear(peer, m.Pace(**{"prefill_token_us": 1000.0, "prefill_step_us": 5000.0, **pace}))
    rig.submit(1, ask(1))
    assert rig.where(1) == ["u1"]
    return peers


def test_p2_it_goes_elsewhere_where_that_is_sooner_than_waiting():
    rig = SchedulerRig()
    two(rig)
    rig.submit(2, ask(2))  # 36 tokens at once, or 36 of the other and four more
    assert rig.where(2) == ["u2"]
    assert counted(rig, "prefix_wait_refused_slow") == 1


def test_p2_it_waits_where_little_is_left_until_its_block_comes():
    rig = SchedulerRig()
    first, _ = two(rig)
    rig.hear(first, m.Credit(0, 0, 30))
    rig.submit(2, ask(2))
    assert rig.where(2) == []
    publish(rig, first, ask(1), 8)
    assert rig.where(2) == ["u1"]


def test_p2_it_does_not_wait_for_less_than_a_step_costs():
    for token_us, expected in ((1000.0, []), (1.0, ["unified"])):
        rig = SchedulerRig()
        unified = roomy(rig, token_budget=128)  # both of them fit one step
        rig.hear(unified, m.Pace(prefill_token_us=token_us, prefill_step_us=5000.0))
        rig.submit(1, ask(1))
        rig.submit(2, ask(2))
        assert rig.where(2) == expected


def test_p2_while_nothing_is_measured_more_than_a_block_must_be_saved():
    rig = SchedulerRig()
    roomy(rig)
    rig.submit(1, ask(1, shared=SYSTEM[:4]))
    rig.submit(2, ask(2, shared=SYSTEM[:4]))
    rig.submit(3, ask(3, shared=SYSTEM[:4], num_own=3))
    assert rig.where(2) == ["unified"]


def test_p2_a_producer_that_was_not_scheduled_lately_is_not_waited_for():
    rig = SchedulerRig(prefix_wait_max_ms=500.0)
    unified = roomy(rig)
    rig.submit(1, ask(1))
    rig.hear(unified, m.Credit(0, 0, 8), after_s=5.0)
    rig.submit(2, ask(2), after_s=0.4)
    assert rig.where(2) == []
    rig.submit(3, ask(3), after_s=0.2)
    assert rig.where(3) == ["unified"]
    assert counted(rig, "prefix_wait_refused_stale") == 1


def test_p2_nobody_waits_for_a_block_that_would_come_too_late_for_it():
    for max_ms, expected in ((50.0, []), (30.0, ["unified"])):  # 32 tokens of a millisecond and a step's five
        rig = SchedulerRig(prefix_wait_max_ms=max_ms)
        unified = roomy(rig, token_budget=128)
        rig.hear(unified, m.Pace(prefill_token_us=1000.0, prefill_step_us=5000.0))
        rig.submit(1, ask(1))
        rig.submit(2, ask(2))
        assert rig.where(2) == expected


def test_p2_an_executor_without_room_for_it_is_not_waited_for():
    rig = SchedulerRig()
    rig.up(ROUTER)
    small, large = an_executor("u1", Role.UNIFIED, num_blocks=12), an_executor("u2", Role.UNIFIED, num_blocks=512)
    rig.join(small)
    rig.submit(1, ask(1))
    assert rig.where(1) == ["u1"]
    rig.join(large)
    rig.submit(2, ask(2))
    assert rig.where(2) == ["u2"]
    lies_there = ask(4, shared=prompt(32, 48))
    publish(rig, small, lies_there, 8)
    rig.core._fleet.get("u1").num_pending_tokens = 1000  # nor for its prefix where it is cached
    rig.submit(4, lies_there)
    assert rig.where(4) == ["u2"]


def test_p2_a_prefill_executor_without_room_for_it_is_not_waited_for():
    rig = SchedulerRig()
    rig.up(ROUTER)
    prefills = [an_executor(name, Role.PREFILL, num_blocks=12) for name in ("p1", "p2")]
    for prefill in prefills:
        rig.join(prefill)
    rig.join(an_executor("d", Role.DECODE, num_blocks=512), pairs=tuple(prefill.life for prefill in prefills))
    rig.submit(1, ask(1))
    rig.submit(2, ask(2))
    assert [rig.where(number) for number in (1, 2)] == [["p1", "d"], ["p2", "d"]]


# ---- P4, C5: who waits at all


def test_p4_cached_tokens_and_an_earlier_preemption_keep_nobody_from_waiting():
    rig = SchedulerRig()
    unified = roomy(rig)
    publish(rig, unified, ask(1), 2)
    rig.submit(1, ask(1))
    rig.submit(2, work([*SYSTEM, *prompt(4, 2), 1, 2], max_tokens=8, prior=2), attempt=3)
    assert rig.where(2, attempt=3) == []
    publish(rig, unified, ask(1), 8, first=2)
    assert rig.where(2, attempt=3) == ["unified"]


def test_p4_a_prompt_whose_kv_comes_from_its_prefill_executor_waits_for_no_prefix():
    """The hand-off of number 2 goes on while number 3 computes what both of them share."""
    rig = SchedulerRig(prefix_wait_max_ms=1.0)
    _, decode = pair_of(rig, d={"num_blocks": 12})
    rig.submit(1, ask(1))
    rig.submit(2, ask(2))
    rig.wake(0.001)  # gives up, and has no room to decode
    assert rig.where(2) == ["prefill"]
    rig.submit(3, ask(3), after_s=0.01)
    rig.ended(decode, 1, 11)
    assert rig.where(2) == ["prefill", "decode"]


def test_c5_a_prompt_that_is_to_be_scored_computes_all_of_it_and_waits_for_nobody():
    rig = SchedulerRig()
    roomy(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2, num_prompt_logprobs=0))
    assert rig.where(2) == ["unified"]


def test_p12_a_scored_prompt_of_which_blocks_lie_there_publishes_nothing_to_wait_for():
    rig = SchedulerRig()
    unified = roomy(rig)
    publish(rig, unified, ask(1), 4)
    rig.submit(1, ask(1, num_prompt_logprobs=0))
    rig.submit(2, ask(2))
    assert rig.where(2) == ["unified"]


def test_p9_other_cache_salts_never_wait_for_each_other():
    rig = SchedulerRig()
    roomy(rig)
    rig.submit(1, ask(1, salt=b"one"))
    rig.submit(2, ask(2, salt=b"other"))
    assert rig.where(2) == ["unified"]
    rig.submit(3, ask(3, salt=b"one"))
    assert rig.where(3) == []


# ---- P10: the end of a wait is the end of its request


def test_p10_an_abort_or_the_deadline_of_the_request_or_its_router_end_the_wait():
    rig = SchedulerRig()
    unified = one_waits(rig)
    rig.submit(3, ask(3), time_left_ms=100)
    rig.hear(ROUTER, m.Abort(AttemptId(2, 0)))
    assert waiting(rig) == 1
    assert the(rig.wake(0.1), m.Refusal).reason is Reason.DEADLINE
    rig.submit(4, ask(4))
    rig.down(ROUTER)
    assert (waiting(rig), counted(rig, "prefix_waits_left")) == (0, 3)
    rig.ended(unified, 1, 10)
    assert rig.core.quiescent()


def test_p10_and_sch_01_what_never_fits_any_more_is_refused_while_it_waits():
    rig = SchedulerRig()
    one_waits(rig, num_blocks=64)
    out = rig.join(an_executor("unified", Role.UNIFIED, num_blocks=8))
    assert says("router", m.Refusal, id=AttemptId(2, 0), reason=Reason.NEVER_FITS) in out
    assert waiting(rig) == 0


def test_p10_without_executors_waiters_are_refused_in_time_like_everyone():
    rig = SchedulerRig(absent_s=10.0)
    unified = one_waits(rig)
    rig.down(unified)
    assert messages(rig.wake(10.0), m.Refusal) == [m.Refusal(AttemptId(2, 0), Reason.NO_EXECUTOR, {"absent_s": 10.0})]


# ---- P15: where it goes then


def test_p15_a_waiter_goes_to_its_producers_executor_though_another_has_nothing_to_do():
    rig = SchedulerRig()
    first, _ = two(rig)
    rig.hear(first, m.Credit(0, 0, 30))
    rig.submit(2, ask(2))
    publish(rig, first, ask(1), 8)
    assert rig.where(2) == ["u1"]


def test_p15_it_waits_for_steps_of_its_producers_executor_where_that_is_sooner_than_computing_again():
    rig = SchedulerRig(steps_ahead=1.0)
    first, second = two(rig)
    shared = prompt(256, 46)
    publish(rig, first, work(shared), 64)
    rig.hear(second, m.Draining())
    rig.submit(3, work(prompt(60, 3)))  # now the first has work enough ahead
    rig.submit(4, work(prompt(60, 4)))
    rig.down(second)
    rig.join(replace(second, epoch=2))
    rig.submit(5, work([*shared, 1, 2]), after_s=0.01)
    assert (rig.where(5), waiting(rig)) == ([], 1)
    rig.hear(first, m.Credit(0, 0, 70))
    assert rig.where(5) == ["u1"]
    rig.submit(6, work([*shared[:8], *prompt(100, 6)]), after_s=0.01)  # two blocks are not worth that
    assert rig.where(6) == ["u2"]


def test_p15_whoever_waits_for_an_executors_steps_is_demand_when_that_executor_goes():
    rig = SchedulerRig(steps_ahead=0.1)
    first, _ = two(rig)
    shared = prompt(256, 46)
    publish(rig, first, work(shared), 64)
    rig.submit(5, work([*shared, 1, 2]))
    assert waiting(rig) == 1
    rig.down(first)
    assert rig.where(5) == ["u2"]


# ---- P13, C23: counted, and switched by itself


def test_p13_every_wait_is_begun_and_ended_once_and_told_with_its_reason():
    rig = SchedulerRig()
    unified = one_waits(rig)
    assert (counted(rig, "prefix_waits_begun"), counted(rig, "wait_prefix_wait")) == (1, 1)
    rig.now += 0.5
    out = publish(rig, unified, ask(1), 8)
    span = next(span for span in only(out, Span) if span.what == "prefix wait")
    assert (span.request_id, span.reason, span.ended_by) == (2, Reason.PREFIX_WAIT, "served")
    assert span.ended_at - span.since == 0.5
    assert counted(rig, "prefix_waits_served") == 1
    assert counted(rig, "prefix_wait_tokens_saved") == 32


def test_c23_prefix_wait_is_switched_off_by_itself():
    rig = SchedulerRig(prefix_wait=False)
    roomy(rig)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2))
    assert rig.where(2) == ["unified"]
    assert len(rig.core._prefixes.producers) == 0
