"""C15: prompts share a step of a prefill executor while that saves a part of it worth having, and no longer."""

from __future__ import annotations

import pytest

from baton.core.executor.adaptive import is_sharing_worth
from baton.core.executor.pace import NUM_SLOPE, PROMPT_MEMORY, Line, StepPace
from baton.core.ids import Role
from tests.support.machines import ExecutorRig, prefiller, prompt, send_to, unified, work

CARD = (12e-3, 40e-6)  #: seconds of a step of prompts and of one more token in it: bound by weights
PROCESSOR = (2e-3, 700e-6)  #: linear in tokens: 12 of them cost four times the fixed part
KNOBS = {"token_budget": 2048, "long_prefill_tokens": 2048, "num_blocks": 1024, "num_queued_steps": 1}


def measured(costs: tuple[float, float] | None, **knobs) -> ExecutorRig:
    """A prefill executor that has measured steps of these costs, and has one step launched: what comes waits for it."""
    rig = prefiller(**(KNOBS | knobs))
    rig.is_checked = False
    if costs is not None:
        know(rig.state.pace, *costs)
    rig.prefill(1000, work(prompt(4, 1), max_tokens=1))
    return rig


def know(pace: StepPace, fixed_s: float, token_s: float, sizes: tuple[int, ...] = (32, 64, 96, 128)) -> None:
    pace._prompts = Line(PROMPT_MEMORY)
    for size in sizes * 8:
        pace._prompts.add(size, fixed_s + token_s * size, 0.0)
    pace._fit_prompts = (fixed_s, token_s)


def come(rig: ExecutorRig, costs: tuple[float, float], *lengths: int) -> list[list[int]]:
    """Prompts of these lengths come; what each step then computes of them."""
    for number, length in enumerate(lengths):
        rig.prefill(number, work(prompt(length, number + 2), max_tokens=1))
    steps = []
    while rig.steps:
        rig.step_done(duration_s=costs[0] + costs[1] * rig.steps[0].num_tokens)
        if rig.steps:
            steps.append([item.num_tokens for item in rig.rows(rig.steps[0])])
    return steps


def test_c15_where_cost_is_linear_in_tokens_prompts_are_computed_one_after_the_other():
    assert come(measured(PROCESSOR), PROCESSOR, 100, 100, 100) == [[100], [100], [100]]


def test_c15_where_the_fixed_part_is_worth_sharing_they_share_it():
    assert come(measured(CARD), CARD, 100, 100, 100) == [[100, 100, 100]]


def test_c15_short_prompts_share_a_step_until_their_tokens_have_paid_for_it():
    assert come(measured(PROCESSOR), PROCESSOR, *[4] * 7) == [[4, 4, 4], [4, 4, 4], [4]]


def test_c15_one_prompt_alone_takes_what_the_budget_allows_and_those_behind_it_wait_for_its_end():
    assert come(measured(PROCESSOR), PROCESSOR, 3000, 100) == [[2048], [952], [100]]


@pytest.mark.parametrize("costs", [CARD, PROCESSOR, None])
def test_c15_a_step_is_filled_where_it_is_asked_to_be_or_where_nothing_was_measured(costs):
    knobs = {} if costs is None else {"share_steps": "always"}
    rig = measured(costs, **knobs)
    assert come(rig, costs or PROCESSOR, 1000, 1000, 1000) == [[1000, 1000, 48], [952]]


def test_c15_an_executor_that_decodes_fills_its_steps():
    """Sequences that begin to decode together share the steps of their decodes."""
    rig = unified(**KNOBS)
    rig.is_checked = False
    know(rig.state.pace, *PROCESSOR)
    rig.run(1000, work(prompt(4, 1), max_tokens=1))
    for number in range(3):
        rig.run(number, work(prompt(100, number + 2), max_tokens=1))
    rig.step_done()
    assert [item.num_tokens for item in rig.rows(rig.steps[0])] == [100, 100, 100]


def test_c15_why_a_step_was_closed_to_others_is_counted():
    rig = measured(PROCESSOR)
    come(rig, PROCESSOR, 100, 100, 100)
    assert rig.state.counters["walk_unshared"] == 2
    assert rig.state.counters["walk_token_budget"] == 0


def test_c15_a_short_prompt_shares_the_step_of_a_long_one():
    """It makes the long one wait less than all behind it would wait for a step of its own."""
    assert come(measured(PROCESSOR), PROCESSOR, 1000, 2, 100) == [[1000, 2], [100]]


def test_c15_the_more_wait_the_more_share_a_step():
    """What each step of its own costs, all that wait pay."""
    assert is_sharing_worth(*PROCESSOR, 100, 1, 100, num_waiting=35)
    assert not is_sharing_worth(*PROCESSOR, 100, 1, 100, num_waiting=34)
    assert not is_sharing_worth(*PROCESSOR, 200, 2, 100, num_waiting=35)


@pytest.mark.parametrize(("num_open", "second"), [(1, [100]), (2, [100, 4])])
def test_c15_what_parked_prompts_hold_back_waits_for_no_step_and_does_not_count(num_open: int, second: list[int]):
    """Two short prompts are worth the step of a long one, one is not. Decode executors wait for the long one and for
    `num_open` short ones; with as many computed tokens parked as may be, nothing else could be computed now."""
    rig = measured(PROCESSOR, parked_tokens=4)
    short_s = PROCESSOR[0] + 4 * PROCESSOR[1]
    rig.step_done(duration_s=short_s)
    rig.prefill(1001, work(prompt(4, 2)))  # nobody asks for its KV
    send_to(rig, 1, work(prompt(100, 3)))
    for number in range(2, 2 + num_open):
        send_to(rig, number, work(prompt(4, number + 2)))
    for number in range(10, 20):
        rig.prefill(number, work(prompt(4, number)))
    rig.step_done(duration_s=short_s)
    assert rig.state.parked_tokens == 4
    assert [item.num_tokens for item in rig.rows(rig.steps[0])] == second


def test_c15_steps_that_are_all_alike_say_nothing_so_they_are_filled_until_they_differ():
    pace, asked = StepPace(), (100, 1, 100, 1)
    know(pace, *PROCESSOR, sizes=(100,))
    assert pace.is_sharing_worth(*asked)
    know(pace, *PROCESSOR, sizes=(100, 100, 100, 800))
    assert not pace.is_sharing_worth(*asked)


def test_c15_a_few_steps_of_different_sizes_are_enough_to_know():
    pace, told = StepPace(), []
    for size in (1792, 256, 512):
        told.append(pace.is_sharing_worth(256, 1, 256, 1))
        pace._prompts.add(size, 0.01 + 0.003 * size, 0.0)
        pace._fit_prompts = pace._prompts.fit(0.0)
    assert (told, pace.is_sharing_worth(256, 1, 256, 1)) == ([True] * NUM_SLOPE, False)


def test_c15_a_closed_loop_of_equal_prompts_comes_to_steps_of_one_prompt():
    """The machine learns it from the durations of its own steps alone."""
    rig = prefiller(**KNOBS)
    rig.is_checked = False
    fixed_s, token_s = PROCESSOR
    number, sizes = 0, []
    for _ in range(40):
        while len(rig.state.queue) < 4:
            number += 1
            rig.prefill(number, work(prompt(256, number + 1), max_tokens=1))
        plan = rig.steps[0]
        sizes.append(len(rig.rows(plan)))
        rig.step_done(duration_s=fixed_s + token_s * plan.num_tokens)
    assert max(sizes[:6]) > 1
    assert sizes[10:] == [1] * 30


def test_c15_only_a_prefill_executor_chooses_by_cost():
    assert prefiller().state.shares_by_cost
    assert not prefiller(share_steps="always").state.shares_by_cost
    assert not ExecutorRig(Role.DECODE).state.shares_by_cost
    assert not unified().state.shares_by_cost
