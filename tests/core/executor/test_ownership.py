"""Launched work owns what it may touch until its completion is proven, however it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import InvariantViolated, Reason
from baton.core.events import PeerUp, Wake
from baton.core.executor.events import EXIT_STEP_FAILED, EXIT_UNPROVEN, Exit, Launch, StepDone, StepFailed
from baton.core.executor.steps import StepResult
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import like, only, says, the
from tests.support.machines import ROUTER, prefiller, prompt, send_to, unified, work


def test_o1_a_completion_is_consumed_with_nothing_else_to_wake_the_loop():
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(8, 1), max_tokens=2))
    rig.step_done()
    rig.step_done()  # the last active decode retires
    assert rig.core.quiescent()
    rig.run(2, work(prompt(8, 2), max_tokens=2))
    assert only(rig.step_done(), m.Records, Launch) == [like(Launch), says("router", m.Records)]


def test_o1_the_last_decode_retires_while_a_prefill_is_in_flight():
    rig = unified(token_budget=16)
    rig.run(1, work(prompt(4, 1), max_tokens=2))
    rig.run(2, work(prompt(32, 2), max_tokens=1))
    out = rig.finish_steps()
    assert [message.id for message in (c.message for c in only(out, m.Ended))] == [AttemptId(1, 0), AttemptId(2, 0)]


def test_o3_and_g4_an_aborted_sequences_blocks_stay_with_the_steps_that_were_launched_with_it():
    rig = unified(num_blocks=16)
    before = rig.books()
    rig.run(1, work(prompt(8)))
    assert len(rig.steps) == 2
    rig.abort(1)
    assert rig.books()["blocks_free"] == 16 - 4
    rig.step_done()
    assert rig.books()["blocks_free"] == 16 - 4  # the second step still names it
    out = rig.step_done()
    assert says("scheduler", m.Credit, num_blocks=4, num_slots=1) in out
    assert rig.books() == before


def test_g4_the_next_plan_tells_the_device_to_forget_the_sequence():
    rig = unified()
    rig.run(1, work(prompt(8)))
    rig.abort(1)
    rig.step_done()
    rig.step_done()
    out = rig.run(2, work(prompt(8, 2)))
    assert only(out, Launch)[0].plan.dropped == (1,)


def test_c13_a_request_that_was_never_launched_leaves_at_once_with_all_its_blocks():
    rig = unified(token_budget=16, num_queued_steps=1)
    rig.run(1, work(prompt(16, 1)))
    rig.run(2, work(prompt(16, 2)))
    out = rig.abort(2)
    assert only(out, m.Ended, m.Credit) == [
        says("scheduler", m.Ended, id=AttemptId(2, 0)),
        says("scheduler", m.Credit, num_blocks=6, num_slots=1, num_prompt_tokens=16),
    ]


@pytest.mark.parametrize("stage", ["launch", "collect", "result building", "applying", "stop"])
def test_o4_a_proven_step_without_a_result_fails_its_requests_and_stops_the_executor(stage):
    rig = unified()
    rig.run(1, work(prompt(8)))
    step = rig.steps[0].step_id
    out = rig.do(StepFailed(step, stage, True, "lost"))
    assert only(out, Exit, m.AttemptFailed) == [
        like(Exit, code=EXIT_STEP_FAILED),
        says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.STEP_FAILED, detail=stage),
    ]
    assert rig.do(StepDone(StepResult(step + 1, (), 0.0))) == []
    assert rig.do(Wake()) == []


@pytest.mark.parametrize("stage", ["create", "record", "wait", "hand-over", "cancel"])
def test_o5_and_o11_an_unproven_step_ends_the_process_at_once_and_frees_nothing(stage):
    rig = unified()
    rig.run(1, work(prompt(8)))
    before = rig.books()
    out = rig.do(StepFailed(rig.steps[0].step_id, stage, False, "no answer"))
    assert only(out, Exit) == [like(Exit, code=EXIT_UNPROVEN)]
    assert only(out, m.AttemptFailed, m.Ended, m.Credit, m.Records) == []
    assert rig.books() == before
    assert rig.do(PeerUp(ROUTER)) == []


def test_o4_and_o5_have_their_own_exit_codes():
    assert len({EXIT_STEP_FAILED, EXIT_UNPROVEN, 0, 1, 2}) == 5


def test_o6_errors_of_several_sequences_of_one_step_are_all_reported():
    rig = unified()
    for number in (1, 2, 3):
        rig.run(number, work(prompt(8, number)))
    rig.step_done()
    out = rig.do(StepFailed(rig.steps[0].step_id, "collect", True))
    assert {message.message.id.request_id for message in only(out, m.AttemptFailed)} == {1, 2, 3}


def test_o9_requests_aborts_and_transfers_are_served_while_a_step_is_awaited():
    rig = prefiller(token_budget=8, num_queued_steps=1)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.step_done()
    rig.prefill(2, work(prompt(8, 2)))
    assert len(rig.steps) == 1
    rig.prefill(3, work(prompt(8, 3)))
    assert the(rig.abort(3), m.Ended).id == AttemptId(3, 0)
    assert the(rig.land_pieces(), m.Ended).id == AttemptId(1, 0)
    assert len(rig.steps) == 1


def test_o10_the_launched_step_owns_its_sequences_before_the_launch_is_commanded():
    """The command is the last thing of the commit: whatever happens to it later, the books know of the step."""
    rig = unified()
    out = rig.run(1, work(prompt(8)))
    launched = only(out, Launch)[0].plan
    assert rig.state.steps[0].plan == launched
    assert rig.state.sequences[1].num_owners == 2


def test_o11_a_result_of_another_step_than_the_oldest_is_a_bug_and_changes_nothing():
    rig = unified()
    rig.run(1, work(prompt(8)))
    before = rig.books()
    late = rig.answer(rig.steps[1])
    with pytest.raises(InvariantViolated):
        rig.do(StepDone(late))
    assert rig.books() == before
    first = rig.answer(rig.steps[0])
    rig.step_done()
    with pytest.raises(InvariantViolated):
        rig.do(StepDone(first))


@given(st.data())
def test_o13_launches_and_proven_completions_are_equal_when_nothing_is_left(data):
    rig = unified(token_budget=16)
    for number in range(1, 6):
        rig.run(number, work(prompt(data.draw(st.integers(1, 20)), number), max_tokens=3))
        if data.draw(st.booleans()) and rig.steps:
            rig.step_done()
        if data.draw(st.booleans()):
            rig.abort(data.draw(st.integers(1, number)))
    rig.finish_steps()
    gauges = rig.core.gauges()
    assert gauges.get("steps_launched_total") == gauges.get("steps_done_total")
    assert gauges["steps_in_flight"] == 0
    assert gauges["blocks_free"] == 64


def test_rtr_05_a_result_for_an_aborted_request_is_not_told_to_anybody():
    rig = unified()
    rig.run(1, work(prompt(8)))
    rig.abort(1)
    assert only(rig.finish_steps(), m.Records) == []


def test_sch_05_an_abort_leaves_nothing_behind_wherever_the_request_stands():
    for steps in range(6):
        rig = unified(token_budget=16)
        before = rig.books()
        rig.run(1, work(prompt(32), max_tokens=8))
        for _ in range(steps):
            rig.step_done()
        out = rig.abort(1)
        assert len(only(out, m.Ended)) == 1
        launched = rig.state.counters["steps_launched"]
        rig.finish_steps()
        assert rig.state.counters["steps_launched"] == launched
        assert rig.books() == before
