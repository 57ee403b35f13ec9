"""R: where a prompt is computed, by predicted time, by tokens or always P/D; and the reason of each decision."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.ids import AttemptId, Peer, Role
from baton.core.wire import messages as m
from baton.core.wire.placement import PlacementReason as Why
from tests.support.expect import messages, the
from tests.support.machines import LAYOUT, ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, pair_of, unified_of

STEP_US, TOKEN_US, DECODE_US, TRANSFER_US = 1000.0, 10.0, 500.0, 3000.0
PACE = m.Pace(TOKEN_US, STEP_US, DECODE_US, TRANSFER_US, 1e6)
BUDGET = 64
BLOCK_US = 256.0  #: of a block of 256 bytes
NUM_SLOTS = 16


def a_peer(name: str, role: Role, **capacity: int) -> Peer:
    """Pools that are never short, whose blocks have a size."""
    peer = an_executor(name, role, **({"num_blocks": 1024, "token_budget": BUDGET} | capacity))
    assert peer.capacity is not None
    told = msgspec.structs.replace(peer.capacity, block_bytes=LAYOUT.block_bytes)
    return msgspec.structs.replace(peer, capacity=told)


def a_pair(p: m.Pace = PACE, d: m.Pace = PACE, cached: bytes = b"", **knobs: Any) -> tuple[SchedulerRig, Peer, Peer]:
    """Both have measured what is said here; the decode executor holds `cached`."""
    rig = SchedulerRig(**({"steps_ahead": 1e6} | knobs))
    prefill, decode = a_peer("prefill", Role.PREFILL), a_peer("decode", Role.DECODE)
    rig.up(ROUTER)
    rig.join(prefill)
    rig.join(decode, pairs=(prefill.life,), cached=cached)
    rig.hear(prefill, p)
    rig.hear(decode, d)
    return rig, prefill, decode


def why(rig: SchedulerRig, number: int, asked: m.Work) -> Why | None:
    """The reason with which it is placed at once; None if it waits."""
    placed = messages(rig.submit(number, asked), m.Placed)
    return placed[-1].why if placed else None


def let_decode(rig: SchedulerRig, count: int, decode: Peer) -> None:
    """So many attempts decode there, their prompts computed."""
    for number in range(1000, 1000 + count):
        rig.submit(number, work(prompt(1, number % 50)))
        for name, message in rig.placed[AttemptId(number, 0)]:
            if isinstance(message, (m.Prefill, m.Run)):
                rig.hear(a_peer(name, decode.role), m.Credit(0, 0, message.work.num_tokens))


# ---- R1: predicted time


def test_r1_while_nothing_is_measured_a_prefill_executor_computes_every_prompt():
    rig, _, _ = a_pair(m.Pace(), m.Pace())
    assert why(rig, 1, work(prompt(1))) is Why.PD
    assert rig.where(1) == ["prefill", "decode"]


def test_r1_a_short_prompt_is_computed_where_it_decodes_and_a_long_one_is_handed_off_to_spare_the_decodes():
    rig, _, decode = a_pair()
    let_decode(rig, 8, decode)
    assert why(rig, 1, work(prompt(8, 1))) is Why.PD  # 8 decodes wait 580 us each, the hand-off costs 3500
    rig, _, decode = a_pair()
    let_decode(rig, 3, decode)
    assert why(rig, 2, work(prompt(8, 2))) is Why.SHORT
    assert why(rig, 3, work(prompt(200, 3))) is Why.PD


def test_r1_how_much_a_delay_of_decodes_counts_is_a_knob():
    rig, _, decode = a_pair(interruption_weight=0.0)
    let_decode(rig, 8, decode)
    assert why(rig, 1, work(prompt(8, 1))) is Why.SHORT


def test_r1_over_a_slow_link_what_has_to_be_sent_decides():
    """All 25 blocks take 64 ms, the one that is not there already 3 ms. A prompt that is scored is computed whole."""
    slow = msgspec.structs.replace(PACE, transfer_bytes_per_s=1e5)
    asked = work(prompt(100, 1), num_prompt_logprobs=0)
    for cached, expected in ((b"", Why.SHORT), (asked.hashes[: 16 * 24], Why.PD)):
        rig, _, _ = a_pair(slow, PACE, cached)
        rig.core._fleet.get("decode").num_attempts = 6
        assert why(rig, 1, asked) is expected


def test_r1_of_several_prefill_executors_the_faster_one_is_chosen_though_it_has_more_to_do():
    rig, _, decode = a_pair(m.Pace(100.0, STEP_US, 0.0, TRANSFER_US, 1e6), m.Pace(1e4, 1e6))
    fast = a_peer("prefill2", Role.PREFILL)
    rig.join(fast, live=((AttemptId(7, 0), 50),))
    rig.hear(fast, PACE)
    rig.hear(decode, m.PairReady(fast.life))
    rig.submit(1, work(prompt(60, 1)))
    assert rig.where(1)[0] == "prefill2"


def test_r1_a_unified_executor_competes_with_a_pair():
    rig, _, _ = a_pair(d=m.Pace(1e4, 1e6))
    unified = a_peer("unified", Role.UNIFIED)
    rig.join(unified)
    rig.hear(unified, PACE)
    assert [why(rig, number, work(prompt(60, number))) for number in (1, 2, 3, 4)] == [
        Why.UNIFIED,
        Why.UNIFIED,
        Why.PD,
        Why.UNIFIED,
    ]


def plainly(num_queued: int, num_tokens: int, num_decodes: int, held: int) -> tuple[float, float]:
    """The same times, step by step: until it decodes if it is handed off, and if it is computed where it decodes."""
    arrival = DECODE_US if num_decodes else 0.0
    blocks = -(-num_tokens // 4)
    handed_off = max(one_by_one(num_tokens, STEP_US), (blocks - held) * BLOCK_US) + TRANSFER_US + arrival
    uncached = max(1, num_tokens - 4 * held)
    local = arrival + one_by_one(num_queued + uncached, STEP_US)
    delay = one_by_one(uncached, STEP_US - arrival)
    return handed_off, local + num_decodes * delay


def one_by_one(num_tokens: int, step_us: float) -> float:
    total = 0.0
    while num_tokens > 0:
        total += step_us + TOKEN_US * min(num_tokens, BUDGET)
        num_tokens -= BUDGET
    return total


@given(st.integers(0, 300), st.integers(1, 300), st.integers(0, NUM_SLOTS - 1), st.data())
def test_r1_the_lesser_of_the_two_times_decides(num_queued, num_tokens, num_decodes, data):
    asked = work(prompt(num_tokens, 1))
    held = data.draw(st.integers(0, num_tokens // 4))
    rig, _, _ = a_pair(cached=asked.hashes[: 16 * held])
    executor = rig.core._fleet.get("decode")
    executor.num_attempts, executor.num_pending_tokens = num_decodes, num_queued
    handed_off, local = plainly(num_queued, num_tokens, num_decodes, held)
    rig.submit(1, asked)
    assert rig.where(1)[0] == ("decode" if local < handed_off else "prefill")


# ---- R2: prompts that are computed where they decode


def test_r2_the_tail_of_a_conversation_is_computed_where_its_last_turn_lies():
    turn = work(prompt(200, 1))
    for cached, expected in ((b"", Why.PD), (turn.hashes[: 16 * 48], Why.CACHED)):
        rig, _, decode = a_pair(cached=cached)
        let_decode(rig, 3, decode)
        assert why(rig, 1, turn) is expected


def test_r2_while_a_prefill_executor_has_much_ahead_a_prompt_is_computed_where_it_decodes():
    rig, _, decode = a_pair()
    let_decode(rig, 4, decode)
    executor = rig.core._fleet.get("prefill")
    assert why(rig, 1, work(prompt(200, 1))) is Why.PD
    executor.num_pending_tokens = 4000
    assert why(rig, 2, work(prompt(200, 2))) is Why.P_BUSY


def test_r2_many_who_wait_for_a_prefill_executor_send_the_first_of_them_to_be_computed_where_it_decodes():
    rig, _, decode = a_pair(steps_ahead=2.0)
    let_decode(rig, 8, decode)
    assert [why(rig, n, work(prompt(BUDGET, n))) for n in (1, 2, 3, 4)] == [Why.PD, Why.PD, None, None]
    for number in range(5, 12):
        rig.submit(number, work(prompt(BUDGET, number)))
    assert rig.where(3) == ["decode"]
    assert rig.core.gauges()["placed_p_busy_total"] >= 1
    assert 11 not in [work_id.request_id for work_id in rig.placed]


def test_r2_a_decode_executor_is_fed_no_more_than_its_steps_ahead():
    rig, _, decode = a_pair(p=m.Pace(1e4, 1e6, 0.0, 1e6, 1e6), steps_ahead=2.0)
    assert [why(rig, n, work(prompt(BUDGET, n))) for n in (1, 2, 3)] == [Why.SHORT, Why.SHORT, Why.PD]
    rig.hear(decode, m.Credit(0, 0, BUDGET))
    assert why(rig, 4, work(prompt(BUDGET, 4))) is Why.SHORT


@pytest.mark.parametrize("knobs", [{"placement": "always_pd"}, {}], ids=["always_pd", "predicted"])
def test_r2_while_no_prefill_executor_lives_decode_executors_compute_all_prompts(knobs):
    rig, prefill, decode = a_pair(m.Pace(), m.Pace(), **knobs)
    rig.down(prefill)
    assert rig.core.readiness() == ""
    placed = the(rig.submit(1, work(prompt(100))), m.Placed)
    assert (placed.prefill, placed.decode, placed.why) == (decode.life, decode.life, Why.P_DOWN)
    rig.join(prefill)
    assert why(rig, 2, work(prompt(100, 2))) is Why.PD


def test_r2_a_prefill_executor_that_drains_computes_nothing_more():
    rig, prefill, _ = a_pair(m.Pace(), m.Pace())
    rig.hear(prefill, m.Draining())
    assert why(rig, 1, work(prompt(100))) is Why.P_DOWN


def test_r2_without_prefill_executors_only_the_pool_that_decodes_says_what_never_fits():
    rig, prefill, _ = a_pair(m.Pace(), m.Pace())
    rig.down(prefill)
    small = a_peer("prefill", Role.PREFILL, num_blocks=4)
    assert why(rig, 1, work(prompt(100))) is Why.P_DOWN
    rig.join(small)
    assert the(rig.submit(2, work(prompt(100))), m.Refusal).reason is Reason.NEVER_FITS


# ---- the fixed rules


def test_r1_by_tokens_counts_what_is_not_cached_where_it_decodes():
    long = work(prompt(40, 1))
    rig, _, _ = a_pair(m.Pace(), m.Pace(), long.hashes[: 16 * 8], placement="by_tokens", local_prompt_tokens=8)
    asked = [work(prompt(8, 2)), work(prompt(9, 3)), long, work(prompt(40, 4))]
    assert [why(rig, n, each) for n, each in enumerate(asked, 1)] == [Why.SHORT, Why.PD, Why.CACHED, Why.PD]


def test_r1_always_pd_hands_off_every_prompt_whatever_was_measured():
    rig, _, _ = a_pair(placement="always_pd")
    assert why(rig, 1, work(prompt(1))) is Why.PD


# ---- R3


def test_r3_strict_waits_for_a_prefill_executor_and_refuses_when_none_comes():
    rig, prefill, _ = a_pair(strict_pd=True, absent_s=10.0)
    rig.down(prefill)
    assert rig.core.readiness() != ""
    assert why(rig, 1, work(prompt(8))) is None
    out = rig.wake(10.0)
    assert messages(out, m.Refusal) == [m.Refusal(AttemptId(1, 0), Reason.NO_EXECUTOR, {"absent_s": 10.0})]
    assert rig.where(1) == []


def test_r3_strict_goes_on_when_one_comes_in_time():
    rig, prefill, decode = a_pair(strict_pd=True, placement="always_pd", absent_s=10.0)
    rig.down(prefill)
    rig.submit(1, work(prompt(8)))
    again = msgspec.structs.replace(prefill, epoch=2)
    rig.join(again)
    rig.hear(decode, m.PairReady(again.life))
    assert rig.where(1) == ["prefill", "decode"]


# ---- R4


def test_r4_each_decision_is_counted_by_its_reason_and_said_again_as_it_was():
    rig, prefill, _ = a_pair(placement="by_tokens", local_prompt_tokens=8)
    assert why(rig, 1, work(prompt(8, 1))) is Why.SHORT
    assert why(rig, 1, work(prompt(8, 1))) is Why.SHORT
    assert why(rig, 2, work(prompt(80, 2))) is Why.PD
    rig.down(prefill)
    assert why(rig, 3, work(prompt(80, 3))) is Why.P_DOWN
    gauges = rig.core.gauges()
    assert {reason: gauges[f"placed_{reason}_total"] for reason in Why} == {
        Why.PD: 1, Why.CACHED: 0, Why.SHORT: 1, Why.P_BUSY: 0, Why.P_DOWN: 1, Why.UNIFIED: 0
    }  # fmt: skip


def test_r4_a_unified_executor_has_a_reason_of_its_own():
    rig = SchedulerRig()
    unified_of(rig)
    assert why(rig, 1, work(prompt(8))) is Why.UNIFIED


# ---- order


def test_c7_nobody_passes_a_request_that_waits_for_the_steps_of_a_prefill_executor():
    rig, prefill, _ = a_pair(steps_ahead=1.0, placement="by_tokens", local_prompt_tokens=8)
    assert why(rig, 1, work(prompt(BUDGET, 1))) is Why.PD
    assert why(rig, 2, work(prompt(BUDGET, 2))) is None
    assert why(rig, 3, work(prompt(4, 3))) is None
    rig.hear(prefill, m.Credit(0, 0, BUDGET))
    assert (rig.where(2), rig.where(3)) == (["prefill", "decode"], ["decode"])


def test_w4_a_computed_prompt_that_lacks_room_is_passed_no_longer_than_its_bypass_deadline():
    """Short prompts that come all the time may not keep its decode executor full for ever."""
    rig = SchedulerRig(bypass_s=5.0, placement="by_tokens", local_prompt_tokens=4)
    prefill, decode = pair_of(rig, d={"num_blocks": 10})
    rig.submit(1, work(prompt(24, 1)))
    rig.submit(2, work(prompt(24, 2)))
    rig.hear(prefill, m.Due(AttemptId(2, 0)))
    assert (rig.where(1), rig.where(2)) == (["prefill", "decode"], ["prefill"])
    assert why(rig, 3, work(prompt(1, 3), max_tokens=1)) is Why.SHORT
    rig.wake(5.0)
    assert why(rig, 4, work(prompt(1, 4), max_tokens=1)) is Why.PD  # nothing of what it collects is taken
    assert rig.where(4) == ["prefill"]
    rig.ended(decode, 1, 8)
    assert rig.where(2) == ["prefill", "decode"]
