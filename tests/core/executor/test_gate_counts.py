"""What hold and protection say of themselves: counts by reason, steps of prompts, and until when."""

from __future__ import annotations

import pytest

from baton.core.errors import Reason
from baton.core.events import Wake
from tests.support.alternating import add, alternating, count, kinds


def test_c28_what_is_kept_back_says_until_when_and_the_machine_asks_to_be_woken_then():
    rig = alternating(hold="fill", hold_fill=1.0, hold_stall_ms=250.0, hold_max_ms=400.0)
    rig.step_done()
    add(rig, 3, 4)
    arrived = rig.now
    rig.step_done()
    assert rig.state.gate.kept.reason is Reason.HELD
    assert rig.core.next_wake == rig.state.gate.kept.until == pytest.approx(arrived + 0.25)
    rig.now += 0.2
    add(rig, 4, 4)
    rig.step_done()
    assert rig.core.next_wake == pytest.approx(arrived + 0.4)  # not later than the first one's bound
    rig.do(Wake(), after_s=1.0)
    assert rig.core.next_wake > rig.now  # a time that has passed is no reason to wake again


def test_c28_protection_ends_by_steps_and_says_the_bound_in_time():
    rig = alternating(protect_steps=50, hold_max_ms=300.0)
    add(rig, 3, 32)
    kinds(rig, 2)
    add(rig, 4, 4)
    arrived = rig.now
    rig.step_done()
    assert rig.state.gate.kept.reason is Reason.PROTECTED
    assert rig.core.next_wake == pytest.approx(arrived + 0.3)


def test_c14_every_decision_to_keep_prompts_back_is_counted_under_its_reason():
    rig = alternating(hold="fill", hold_fill=1.0, protect_steps=2, hold_stall_ms=46.875)
    add(rig, 3, 32)
    assert kinds(rig, 2) == "DP"
    add(rig, 4, 4)
    assert kinds(rig, 4) == "DDDP"  # the first of these was launched before it came
    assert (count(rig, "wait_protected"), count(rig, "wait_held")) == (1, 1)


def test_c26_steps_of_prompts_their_requests_and_tokens_and_the_decode_steps_between_are_counted():
    rig = alternating(2, protect_steps=2)
    kinds(rig, 3)
    add(rig, 3, 10)
    add(rig, 4, 10)
    kinds(rig, 2)
    names = ("prefill_steps", "prefill_requests", "prefill_tokens")
    assert [count(rig, name) for name in names] == [1, 2, 20]
    assert count(rig, "prefill_steps_shared") == 1
    between = count(rig, "decode_steps_between")
    kinds(rig, 4)
    add(rig, 5, 10)
    kinds(rig, 2)
    assert count(rig, "decode_steps_between") == between + 5


def test_c27_realised_tokens_are_the_devices_own_count():
    rig = alternating(2)
    add(rig, 3, 10)
    add(rig, 4, 7)
    rig.step_done()
    planned = count(rig, "prefill_tokens_planned")
    assert planned - count(rig, "prefill_tokens") == 17
    rig.step_done()
    assert planned == count(rig, "prefill_tokens")
