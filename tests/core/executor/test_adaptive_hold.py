"""C15: prompts wait for company where a step of prompts has a fixed part worth sharing, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.executor import events as ev
from baton.core.executor.adaptive import MIN_SHARE, PRICE, REST_PRICE, patience_s
from baton.core.executor.pace import PROMPT_MEMORY, Line, StepPace
from tests.support.alternating import add, alternating, kind
from tests.support.machines import ExecutorRig

CARD = (12e-3, 40e-6)  #: seconds of a step of prompts and of one more token in it: bound by weights
PROCESSOR = (2e-3, 700e-6)  #: linear in tokens


def test_c15_patience_is_what_the_decodes_gain_against_what_the_prompts_pay():
    fixed_s, token_s = CARD
    assert patience_s(fixed_s, token_s, 128, 1, 32) == pytest.approx(32 * fixed_s / PRICE)
    assert patience_s(fixed_s, token_s, 256, 2, 32) == pytest.approx(16 * fixed_s / PRICE)
    assert patience_s(fixed_s, token_s, 128, 1, 0) == 0


def test_c15_where_cost_is_linear_in_tokens_nothing_is_gained():
    assert patience_s(*PROCESSOR, 128, 1, 64) == 0
    assert patience_s(*PROCESSOR, 4, 1, 64) > 0  # very short prompts: the weights are most of it
    assert patience_s(0.0, 0.0, 128, 1, 64) == 0  # nothing was measured yet


@given(
    st.floats(0, 1), st.floats(0, 1e-2), st.integers(1, 4096), st.integers(1, 64), st.integers(0, 256)
)  # fmt: skip
def test_c15_patience_never_grows_with_what_is_in_hand(fixed_s, token_s, num_tokens, num_prompts, num_decodes):
    now = patience_s(fixed_s, token_s, num_tokens, num_prompts, num_decodes)
    later = patience_s(fixed_s, token_s, num_tokens + 100, num_prompts + 1, num_decodes)
    assert 0 <= later <= now
    if fixed_s < MIN_SHARE * (fixed_s + token_s * num_tokens):
        assert now == 0


def measured(costs: tuple[float, float], num_decoding: int = 4, **knobs) -> ExecutorRig:
    """Decodes, has measured steps of these costs, and a prompt came every 20 ms of late."""
    rig = alternating(num_decoding, **({"hold": "adaptive", "token_budget": 512, "long_prefill_tokens": 512} | knobs))
    rig.state.gate.gap_s, rig.state.gate.grew_at = 0.020, rig.now
    fixed_s, token_s = costs
    rig.state.pace._prompts = Line(PROMPT_MEMORY)  # nothing of the prompts that made the batch
    for size in (32, 64, 96, 128) * 8:
        rig.state.pace._prompts.add(size, fixed_s + token_s * size, 0.0)
    rig.state.pace._fit_prompts = (fixed_s, token_s)
    return rig


def answer(rig: ExecutorRig, duration_s: float = 0.005) -> str:
    """The step is done in that time; the kind of the next one."""
    rig.now += duration_s
    step = rig.state.steps[0]
    size = step.plan.num_tokens - step.num_decodes
    fixed_s, token_s = rig.state.pace._fit_prompts
    result = rig.answer(rig.steps.popleft())
    rig.do(ev.StepDone(replace(result, duration_s=fixed_s + token_s * size if size else duration_s)))
    return kind(rig)


def test_c15_a_prompt_is_held_for_company_where_a_steps_fixed_part_is_large():
    rig = measured((120e-3, 40e-6))
    add(rig, 11, 64)
    assert [answer(rig) for _ in range(3)] == ["D"] * 3
    add(rig, 12, 64)
    found = [answer(rig) for _ in range(40)]
    assert "P" in found
    assert rig.state.counters["fires_stall"] >= 1
    assert rig.state.counters["prefill_steps_shared"] >= 1


def test_c15_it_is_off_by_itself_where_cost_is_linear_in_tokens():
    rig = measured(PROCESSOR)
    for number in range(11, 21):
        add(rig, number, 64)
        assert answer(rig) == "P"
        assert answer(rig) == "D"
    assert rig.state.counters["wait_held"] == 0
    assert rig.state.counters["fires_no_gain"] >= 10


def test_c15_nothing_is_held_where_prompts_come_too_seldom():
    rig = measured((120e-3, 40e-6))
    rig.state.gate.gap_s = 5.0
    add(rig, 11, 64)
    assert answer(rig) == "P"


def test_c15_the_rest_of_a_prompt_waits_for_company_where_a_new_prompt_would_not():
    rig = measured((120e-3, 40e-6), hold_partial_ms=100.0, long_prefill_tokens=32)
    rig.state.gate.gap_s = 0.2
    assert 4 * 0.120 / PRICE < rig.state.gate.gap_s < 4 * 0.120 / REST_PRICE
    add(rig, 11, 64)
    assert answer(rig) == "P"  # new: at once
    assert [answer(rig) for _ in range(30)].index("P") == pytest.approx(20, abs=1)  # the rest: 100 ms after it
    assert rig.state.counters["fires_partial"] == 1


def test_c15_a_rest_goes_with_the_next_prompt_that_comes():
    rig = measured((120e-3, 40e-6), hold_partial_ms=100.0, long_prefill_tokens=32)
    rig.state.gate.gap_s = 0.2
    add(rig, 11, 64)
    assert [answer(rig) for _ in range(4)] == ["P", "D", "D", "D"]
    rig.state.gate.gap_s = 0.2
    add(rig, 12, 16)
    assert answer(rig) == "P"
    assert len(rig.rows(rig.state.steps[0].plan)) == 2


def test_c15_nothing_is_held_while_the_time_between_tokens_is_within_its_target():
    rig = measured((120e-3, 40e-6), itl_target_ms=20.0)
    for _ in range(3):
        answer(rig, 0.005)
    add(rig, 11, 64)
    assert answer(rig) == "P"
    slow = measured((120e-3, 40e-6), itl_target_ms=20.0)
    for _ in range(100):
        answer(slow, 0.030)
    slow.state.gate.gap_s, slow.state.gate.grew_at = 0.020, slow.now
    add(slow, 11, 64)
    assert answer(slow) == "D"


def test_c15_never_longer_than_a_prompts_bound_from_its_arrival():
    rig = measured((50.0, 0.0), hold_max_ms=100.0)
    rig.state.gate.gap_s = 0.001
    add(rig, 11, 4)
    number = 11
    held_s = 0.0
    while answer(rig) == "D":
        held_s += 0.005
        number += 1
        if number < 20:
            add(rig, number, 4)
    assert held_s == pytest.approx(0.1, abs=0.006)
    assert rig.state.counters["fires_age"] == 1


def test_c15_protection_is_off_by_itself_where_steps_of_prompts_share_nothing():
    linear = measured(PROCESSOR, protect="adaptive", protect_steps=4)
    weights = measured((120e-3, 40e-6), protect="adaptive", protect_steps=4, hold="off")
    assert linear.state.pace.prompt_fixed_share < MIN_SHARE < weights.state.pace.prompt_fixed_share
    for rig in (linear, weights):
        add(rig, 11, 64)
        assert answer(rig) == "P"
        add(rig, 12, 64)
    assert [answer(linear) for _ in range(3)] == ["P", "D", "D"]
    assert [answer(weights) for _ in range(6)] == ["D", "D", "D", "D", "P", "D"]


def test_c15_decodes_are_protected_before_anything_was_measured():
    assert StepPace().prompt_fixed_share == 1.0


def test_c15_a_full_step_waits_for_nobody():
    rig = measured((50.0, 0.0))
    rig.state.gate.gap_s = 0.001
    add(rig, 11, 500)
    assert answer(rig) == "D"
    add(rig, 12, 12)
    assert answer(rig) == "P"
    assert rig.state.counters["fires_fill"] == 1
