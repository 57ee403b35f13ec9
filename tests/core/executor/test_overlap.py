"""Prompts beside decodes: two lanes of steps, each in order; nothing of one is touched by the other (O8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Wake
from baton.core.executor.events import EXIT_STEP_FAILED, EXIT_UNPROVEN, Exit, Launch, StepDone, StepFailed
from baton.core.executor.steps import MAIN_LANE, PREFILL_LANE, StepItem, StepPlan
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import like, only, says
from tests.support.machines import SCHEDULER, ExecutorRig, prompt, tokens_told, unified, work


def overlapping(**knobs: Any) -> ExecutorRig:
    return unified(step_mode="overlap", **knobs)


def in_lane(rig: ExecutorRig, lane: int) -> list[StepPlan]:
    return [plan for plan in rig.steps if plan.lane == lane]


def done(rig: ExecutorRig, lane: int) -> list[Any]:
    """The oldest step of the lane is done."""
    plan = in_lane(rig, lane)[0]
    rig.steps.remove(plan)
    return rig.do(StepDone(rig.answer(plan)))


def decoding(max_tokens: int = 40, **knobs: Any) -> ExecutorRig:
    """One sequence decodes, two steps ahead if it has so many tokens left."""
    rig = overlapping(**{"growth_reserve": 40, **knobs})
    rig.run(1, work(prompt(8, 1), max_tokens=max_tokens))
    done(rig, PREFILL_LANE)
    assert [plan.lane for plan in rig.steps] == [MAIN_LANE] * min(2, max_tokens - 1)
    return rig


def test_o8_steps_of_prompts_and_of_decodes_are_apart_each_within_the_budget() -> None:
    rig = decoding(token_budget=16, long_prefill_tokens=16)
    rig.run(2, work(prompt(40, 2)))
    assert [[item.num_tokens for item in rig.rows(plan)] for plan in in_lane(rig, PREFILL_LANE)] == [[16], [16]]
    assert [[item.num_tokens for item in rig.rows(plan)] for plan in in_lane(rig, MAIN_LANE)] == [[1], [1]]


def test_o8_decodes_go_on_while_a_prompt_is_computed() -> None:
    rig = decoding()
    rig.run(2, work(prompt(40, 2)))
    for _ in range(20):
        out = done(rig, MAIN_LANE)
        assert len(tokens_told(out, 1)) == 1
        assert only(out, Launch)[0].plan.lane == MAIN_LANE
    assert len(in_lane(rig, PREFILL_LANE)) == 1


def test_o8_a_sequence_decodes_only_when_the_last_step_of_its_prompt_is_proven() -> None:
    rig = overlapping()
    rig.run(1, work(prompt(8)))
    rig.do(Wake())
    assert [plan.lane for plan in rig.steps] == [PREFILL_LANE]  # nothing decodes ahead of it
    out = done(rig, PREFILL_LANE)
    assert [launch.plan.lane for launch in only(out, Launch)] == [MAIN_LANE, MAIN_LANE]


def test_o8_results_come_in_any_order_between_lanes_and_in_order_within_one() -> None:
    rig = decoding(token_budget=16, long_prefill_tokens=16)
    rig.run(2, work(prompt(40, 2)))
    late = rig.answer(in_lane(rig, PREFILL_LANE)[1])
    with pytest.raises(InvariantViolated):
        rig.do(StepDone(late))
    done(rig, PREFILL_LANE)  # launched after the decode steps that are still out
    done(rig, MAIN_LANE)
    done(rig, MAIN_LANE)
    rig.finish_steps()
    assert rig.core.quiescent()


def test_o1_the_last_decode_retires_while_a_prompt_is_in_flight_and_its_end_needs_no_other_event() -> None:
    rig = decoding(max_tokens=2)
    rig.run(2, work(prompt(8, 2), max_tokens=2))
    while in_lane(rig, MAIN_LANE):
        done(rig, MAIN_LANE)
    assert AttemptId(1, 0) not in rig.state.groups
    assert [plan.lane for plan in rig.steps] == [PREFILL_LANE]
    out = done(rig, PREFILL_LANE)
    assert len(tokens_told(out, 2)) == 1
    assert [launch.plan.lane for launch in only(out, Launch)] == [MAIN_LANE]
    rig.finish_steps()
    assert rig.core.quiescent()


def test_g4_a_lane_forgets_a_sequence_only_when_no_step_of_the_other_names_it() -> None:
    rig = decoding()
    rig.run(2, work(prompt(8, 2)))
    rig.abort(2)
    for _ in range(4):
        assert only(done(rig, MAIN_LANE), Launch)[0].plan.dropped == ()
    done(rig, PREFILL_LANE)
    assert only(done(rig, MAIN_LANE), Launch)[0].plan.dropped == (2,)


def test_g7_the_copy_of_a_partial_block_goes_with_the_lane_that_decodes_from_it() -> None:
    rig = decoding(token_budget=16, long_prefill_tokens=16)
    rig.run(2, work(prompt(10, 2), num_choices=2))
    rig.run(3, work(prompt(40, 3)))
    out = done(rig, PREFILL_LANE)  # the choices' prompt is computed; only the lane of prompts has room for a step
    assert [launch.plan.lane for launch in only(out, Launch)] == [PREFILL_LANE]
    assert only(out, Launch)[0].plan.copies == ()
    assert len(rig.state.copies) == 1
    out = done(rig, MAIN_LANE)
    assert [(len(launch.plan.copies), launch.plan.lane) for launch in only(out, Launch)] == [(1, MAIN_LANE)]


def test_c21_a_wholly_cached_prompt_is_copied_in_its_own_lane() -> None:
    rig = decoding(num_blocks=32, num_spare_blocks=1)
    rig.run(2, work(prompt(8, 1)))
    plan = in_lane(rig, PREFILL_LANE)[0]
    assert len(plan.copies) == 1
    assert [(item.start, item.num_tokens) for item in rig.rows(plan)] == [(7, 1)]


@pytest.mark.parametrize("lane", [MAIN_LANE, PREFILL_LANE])
@pytest.mark.parametrize("stage", ["launch", "collect", "result building", "applying", "stop"])
def test_o4_a_broken_step_of_either_lane_fails_the_requests_of_both(lane: int, stage: str) -> None:
    rig = decoding()
    rig.run(2, work(prompt(8, 2)))
    free = rig.books()["blocks_free"]
    out = rig.do(StepFailed(in_lane(rig, lane)[0].step_id, stage, True, "lost"))
    assert only(out, Exit) == [like(Exit, code=EXIT_STEP_FAILED)]
    assert only(out, m.AttemptFailed) == [
        says("router", m.AttemptFailed, id=AttemptId(number, 0), reason=Reason.STEP_FAILED) for number in (1, 2)
    ]
    assert rig.books()["blocks_free"] == free  # steps of both lanes may still run


@pytest.mark.parametrize("lane", [MAIN_LANE, PREFILL_LANE])
@pytest.mark.parametrize("stage", ["create", "record", "wait", "hand-over", "cancel"])
def test_o5_an_unproven_step_of_either_lane_frees_nothing(lane: int, stage: str) -> None:
    rig = decoding()
    rig.run(2, work(prompt(8, 2)))
    before = rig.books()
    out = rig.do(StepFailed(in_lane(rig, lane)[0].step_id, stage, False, "no answer"))
    assert only(out, Exit) == [like(Exit, code=EXIT_UNPROVEN)]
    assert only(out, m.AttemptFailed, m.Ended, m.Credit, m.Records) == []
    assert rig.books() == before


@pytest.mark.parametrize("lane", [MAIN_LANE, PREFILL_LANE])
def test_c27_a_result_that_is_not_what_its_plan_asked_is_a_broken_step(lane: int) -> None:
    rig = decoding()
    rig.run(2, work(prompt(8, 2)))
    plan = in_lane(rig, lane)[0]
    wrong = rig.answer(StepPlan(plan.step_id, (), (), (), (StepItem(9, 0, 1, 0, b""),), lane=lane))
    assert only(rig.do(StepDone(wrong)), Exit) == [like(Exit, code=EXIT_STEP_FAILED)]


def test_o9_requests_and_aborts_are_served_while_both_lanes_are_awaited() -> None:
    rig = decoding()
    rig.run(2, work(prompt(8, 2)))
    rig.run(3, work(prompt(8, 3)))
    rig.run(4, work(prompt(8, 4)))
    assert only(rig.abort(4), m.Ended) == [says("scheduler", m.Ended, id=AttemptId(4, 0))]
    rig.abort(1)
    while rig.steps:
        rig.step_done()
    assert rig.core.quiescent()


def test_c12_lanes_have_no_effect_where_nothing_decodes() -> None:
    with pytest.raises(ValueError, match="step_mode = overlap has no effect: only where decode runs"):
        ExecutorRig(Role.PREFILL, step_mode="overlap")


def test_c12_hold_and_protection_have_no_effect_in_lanes() -> None:
    with pytest.raises(ValueError, match="protect_steps = 3 has no effect: only with step_mode = alternate"):
        overlapping(protect_steps=3)


def token_at(item: StepItem, choice: int) -> int:
    """A function of position and choice alone, as a model's is of the tokens."""
    return 2_000_000 + 1000 * (item.start + item.num_tokens) + choice


def turn(rig: ExecutorRig, lane: int) -> list[Any]:
    """The lane's oldest step is done; the scheduler returns what it is asked for."""
    plan = in_lane(rig, lane)[0]
    rig.steps.remove(plan)
    out = rig.do(StepDone(rig.answer(plan, token_at)))
    if only(out, m.Reclaim):
        out += rig.hear(SCHEDULER, m.Returned(rig.state.memory.outstanding_blocks))
    return out


def draw_turn(rig: ExecutorRig, data: st.DataObject) -> list[Any]:
    lanes = sorted({plan.lane for plan in rig.steps})
    return turn(rig, data.draw(st.sampled_from(lanes), label="lane")) if lanes else []


def draw_work(data: st.DataObject) -> m.Work:
    tokens = prompt(data.draw(st.integers(1, 20), label="tokens"), data.draw(st.integers(1, 2), label="family"))
    max_tokens, num_choices = data.draw(st.integers(1, 6), label="outputs"), data.draw(st.integers(1, 2))
    return work(tokens, max_tokens=max_tokens, num_choices=num_choices)


def can_run(rig: ExecutorRig, item: m.Work) -> bool:
    memory = rig.state.memory
    return memory.outstanding_blocks >= rig.demand(item).decode_blocks and memory.outstanding_slots >= item.num_choices


@settings(deadline=None)
@given(st.data())
def test_x1_x2_and_o13_every_order_of_the_lanes_ends_in_the_same_tokens_and_full_books(data: st.DataObject) -> None:
    """Small pools: sequences are preempted, aborted and share prefixes while both lanes run."""
    num_blocks = data.draw(st.sampled_from([8, 16, 64]), label="blocks")
    rig = overlapping(num_blocks=num_blocks, token_budget=16, long_prefill_tokens=8, num_slots=8, growth_reserve=1)
    asked: dict[int, m.Work] = {}
    out: list[Any] = []
    for number in range(1, data.draw(st.integers(1, 6), label="requests") + 1):
        item = draw_work(data)
        if can_run(rig, item):
            asked[number] = item
            out += rig.run(number, item)
        for _ in range(data.draw(st.integers(0, 3), label="steps")):
            out += draw_turn(rig, data)
        if asked and data.draw(st.integers(0, 9), label="abort") == 0:
            gone = data.draw(st.sampled_from(sorted(asked)))
            del asked[gone]
            out += rig.abort(gone)
    while rig.steps:
        out += draw_turn(rig, data)
    failed = {message.message.id.request_id for message in only(out, m.AttemptFailed)}
    for number, item in asked.items():
        ends = range(item.num_tokens, item.num_tokens + item.sampling.max_tokens)
        for choice in range(item.num_choices):
            assert number in failed or tokens_told(out, number, choice) == [
                2_000_000 + 1000 * end + choice for end in ends
            ]
    gauges = rig.core.gauges()
    assert rig.core.quiescent()
    assert gauges["blocks_free"] == num_blocks
    for kind in ("decode", "prefill"):
        assert gauges.get(f"{kind}_steps_launched_total") == gauges.get(f"{kind}_steps_done_total")
    assert "mixed_steps_launched_total" not in gauges
