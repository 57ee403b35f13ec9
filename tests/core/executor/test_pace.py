"""What steps cost, measured from what was done: like a card, like a processor; and what the scheduler hears of it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.executor import events as ev
from baton.core.executor.bandwidth import PairWindow
from baton.core.executor.pace import DECODE_MEMORY, Line, StepPace
from baton.core.ids import Role
from baton.core.wire import messages as m
from baton.core.wire.codec import decode_message, encode_message
from tests.support.expect import messages, only
from tests.support.machines import SCHEDULER, prompt, unified, work


class Step:
    """A step as far as its costs go."""

    def __init__(self, num_decodes: int, num_prompt_tokens: int) -> None:
        self.num_decodes = num_decodes
        self.num_prompt_tokens = num_prompt_tokens


def measured(fixed_s: float, token_s: float, decode_s: float, each_s: float, noise: float = 0.05) -> StepPace:
    """After 300 steps of a device with these costs."""
    pace, rng = StepPace(), Random(7)
    for number in range(300):
        decodes = rng.randint(1, 32)
        tokens = 0 if number % 3 else rng.randint(16, 512)
        exact = fixed_s + token_s * tokens + each_s * decodes if tokens else decode_s + each_s * decodes
        pace.record(Step(decodes, tokens), exact * (1 + noise * rng.uniform(-1, 1)))
    return pace


@pytest.mark.parametrize(
    ("fixed_s", "token_s", "decode_s", "each_s"),
    [
        (12e-3, 40e-6, 10e-3, 50e-6),  # weights bound: a card
        (0.0, 700e-6, 2e-3, 700e-6),  # linear in tokens: a processor
    ],
)
def test_c15_the_costs_of_steps_are_found_from_what_they_held(fixed_s, token_s, decode_s, each_s):
    pace = measured(fixed_s, token_s, decode_s, each_s)
    at_256 = fixed_s + 256 * token_s
    assert pace.prompt_fixed_s + 256 * pace.prompt_token_s == pytest.approx(at_256, rel=0.1)
    assert abs(pace.prompt_fixed_s - fixed_s) < 0.1 * at_256
    assert pace.decode_step_s == pytest.approx(decode_s + 16.5 * each_s, rel=0.15)
    assert pace.decode_each_s == pytest.approx(each_s, rel=0.5)


def test_c15_prompts_that_are_all_alike_show_no_slope_so_the_fixed_part_is_a_decode_steps():
    pace = StepPace()
    for _ in range(50):
        pace.record(Step(4, 0), 0.010)
        pace.record(Step(0, 128), 0.030)
    assert pace.decode_each_s == 0
    assert pace.prompt_fixed_s == pytest.approx(0.010)
    assert pace.prompt_token_s == pytest.approx(0.020 / 128)


def test_c15_one_absurd_step_moves_the_fit_by_a_bounded_amount_and_a_lasting_change_is_followed():
    pace = measured(1e-3, 1e-5, 4e-3, 0.0, noise=0.0)
    before = pace.decode_step_s
    pace.record(Step(8, 0), 30.0)
    assert pace.decode_step_s < before * (1 + 4 * DECODE_MEMORY)
    for _ in range(2000):
        pace.record(Step(8, 0), 0.1)
    assert pace.decode_step_s == pytest.approx(0.1, rel=0.01)


def test_c15_a_few_large_steps_at_another_slope_do_not_hide_the_fixed_part_of_the_many_small_ones():
    """As on cards: flat up to some hundred tokens, then linear."""
    pace, rng = StepPace(), Random(3)
    for number in range(200):
        pace.record(Step(16, 0), 0.034)
        size = 8000 if number % 50 == 0 else rng.randint(128, 700)
        pace.record(Step(0, size), max(0.052, 1e-4 * size))
    assert pace.prompt_fixed_s == pytest.approx(0.05, rel=0.15)
    assert pace.prompt_fixed_share > 0.7


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 4096), st.floats(0, 1e6)), max_size=40))
def test_c15_no_measure_is_ever_negative_or_without_bound(steps):
    pace = StepPace()
    for num_decodes, num_prompt_tokens, duration_s in steps:
        pace.record(Step(num_decodes, num_prompt_tokens), duration_s)
        values = [pace.prompt_fixed_s, pace.prompt_token_s, pace.decode_step_s, pace.decode_each_s]
        assert all(0 <= value <= 61 for value in values)


def test_c15_a_line_forgets():
    line = Line(1 / 8)
    for _ in range(100):
        line.add(10, 1.0, 0.0)
    for size in [10, 20] * 100:
        line.add(size, 0.001 * size, 0.0)
    fixed_s, each_s = line.fit(0.0)
    assert each_s == pytest.approx(0.001, rel=0.05)
    assert fixed_s == pytest.approx(0.0, abs=1e-3)


# ---- what the scheduler hears


def paces(out) -> list[m.Pace]:
    return messages(out, m.Pace)


def done_in(rig, duration_s: float) -> list[m.Pace]:
    result = rig.answer(rig.steps.popleft())
    return paces(rig.do(ev.StepDone(replace(result, duration_s=duration_s))))


def test_r1_the_scheduler_hears_the_pace_when_it_changed_by_a_tenth_and_at_most_four_times_a_second():
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(32, 1), max_tokens=8))
    assert done_in(rig, 0.32) == [m.Pace(prefill_token_us=pytest.approx(10_000))]
    assert done_in(rig, 0.01) == []  # a quarter of a second is not over
    rig.now += 0.25
    (said,) = done_in(rig, 0.01)
    assert said.decode_step_us == pytest.approx(10_000)
    rig.now += 1.0
    assert done_in(rig, 0.0105) == []  # no tenth
    rig.now += 1.0
    assert [len(done_in(rig, 0.03)) for _ in range(4)] == [1, 0, 0, 0]


def test_r1_each_new_session_begins_with_the_pace_that_is_known():
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(32, 1), max_tokens=4))
    done_in(rig, 0.32)
    rig.down(SCHEDULER)
    out = rig.up(replace(SCHEDULER, epoch=2))
    kinds = [type(said.message) for said in only(out, m.ExecutorInventory, m.Pace)]
    assert kinds == [m.ExecutorInventory, m.Pace]


def test_r1_nothing_is_said_before_anything_was_measured():
    rig = unified()
    assert paces(rig.up(replace(SCHEDULER, epoch=2))) == []


def test_r1_a_transfer_that_takes_no_time_is_told_as_fast_as_can_be_said():
    rig = unified()
    rig.state.transfer_pace.window = window = PairWindow(1)
    window.landed(window.sent(1 << 20, 0.0, True), 1e-15)
    window.landed(window.sent(1, 1.0, True), 1e18)  # and another, at the same rate, for ever
    told = m.Pace(*StepPace().measures(rig.state))
    assert (told.transfer_bytes_per_s, told.transfer_us) == (m.MAX_MEASURE, m.MAX_MEASURE)
    decode_message(encode_message(told), Role.UNIFIED, Role.SCHEDULER)


def test_w15_paces_are_gauges():
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(32, 1), max_tokens=4))
    done_in(rig, 0.32)
    assert rig.core.gauges()["pace_prompt_token_seconds"] == pytest.approx(0.01)


def test_a_mixed_step_is_charged_with_its_prompt_tokens_alone():
    pace = StepPace()
    for decodes in (2, 8, 2, 8, 2, 8):
        pace.record(Step(decodes, 0), 0.010 + 0.001 * decodes)
    pace.record(Step(8, 100), 0.010 + 0.008 + 0.1)
    assert pace.prompt_fixed_s + 100 * pace.prompt_token_s == pytest.approx(0.11, rel=0.02)
