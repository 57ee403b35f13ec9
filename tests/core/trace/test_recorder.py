"""The recorder: bounded, cheap to fill, and silent about what clients said."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Note, Several, Span, Wake
from baton.core.executor import events as ev
from baton.core.executor.steps import ItemResult, NewSequence, SampledToken, StepItem, StepPlan, StepResult
from baton.core.ids import AttemptId
from baton.core.trace.recorder import Recorder
from baton.core.trace.steps import steps
from baton.core.wire.sampling import SamplingParams

PLAN = StepPlan(
    7, (), (NewSequence(1, b"secret prompt...", 4, SamplingParams(max_tokens=4), 0),), (), (StepItem(1, 0, 4, 1, b""),)
)


def piece(number: int) -> ev.Piece:
    return ev.Piece(number, "decode", 1, 0, 0, 0, 16, 0, 2)


def test_only_the_last_records_are_kept_and_those_that_were_lost_are_counted() -> None:
    recorder = Recorder(3)
    for index in range(5):
        recorder.turn(Wake(), [Note("tick", request_id=index)], float(index), float(index))
    assert [record[3] for record in recorder.since(0.0)] == [2, 3, 4]
    assert [record[3] for record in recorder.since(3.5)] == [4]
    assert (recorder.num_recorded, recorder.num_forgotten) == (5, 2)


def test_a_turn_is_shown_if_it_was_slow() -> None:
    recorder = Recorder(10, slow_turn_s=0.001)
    recorder.turn(Wake(), [], 1.0, 1.0009)
    recorder.turn(Wake(), [Note("x")], 2.0, 2.5)
    assert [record for record in recorder.since(0.0) if record[0] == "turn"] == [("turn", 2.0, 0.5, "Wake", 1)]


def test_several_reports_of_threads_are_recorded_one_by_one() -> None:
    recorder = Recorder(10, slot_bytes=64)
    recorder.turn(Wake(), [ev.Post((piece(1), piece(2)))], 1.0, 1.0)
    landed = Several((ev.PieceLanded(1, 0.1, 1.25), ev.PieceFailed(2, "secret detail")))
    recorder.turn(landed, [], 2.0, 2.0)
    assert recorder.since(0.0) == [
        ("post", 1.0, "decode", ((1, 2048), (2, 2048))),
        ("landed", 2.0, 1, 1.25, 0.1),
        ("failed", 2.0, 2),
    ]


def test_steps_are_matched_with_their_ends_whatever_is_forgotten_of_them() -> None:
    recorder = Recorder(10)
    done = ev.StepDone(StepResult(6, (ItemResult(9, 1, (SampledToken(0, 77777),)),), 0.5, 8))
    recorder.turn(done, [ev.Launch(PLAN)], 1.0, 1.0)
    (before, running) = steps(recorder.since(0.0))
    assert (before.step_id, before.launched_at, before.done_at, before.kind) == (6, None, 1.0, "")
    assert (running.step_id, running.launched_at, running.done_at, running.kind) == (7, 1.0, None, "prefill")
    recorder.turn(ev.StepFailed(7, "launch", True, "secret detail"), [], 2.0, 2.0)
    assert next(iter(list(steps(recorder.since(0.0)))[1:])).broken == "launch"


def test_no_record_holds_what_a_client_said_or_was_answered() -> None:
    recorder = Recorder(100, 64)
    result = StepResult(7, (ItemResult(1, 4, (SampledToken(0, 77777),)),), 0.5)
    commands = [
        ev.Launch(PLAN),
        ev.Exit(70, "secret detail"),
        Note("transport failed", 1, 0, Reason.PEER_LOST, {"admitted_s": 1.0}, "decode", "secret detail"),
        Span("hold", 0.5, 1.0, Reason.HELD, 2.0, "fill", AttemptId(1, 0).request_id),
    ]
    recorder.turn(ev.StepDone(result), commands, 1.0, 9.0)
    told = repr(recorder.since(0.0))
    assert "secret" not in told
    assert "77777" not in told
    assert [record[0] for record in recorder.since(0.0)] == ["done", "launch", "note", "span", "turn"]
