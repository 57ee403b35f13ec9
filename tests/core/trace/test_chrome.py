"""Records as a trace: valid events, every stage in its lane, one clock for all."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.events import Note, Span, Wake
from baton.core.executor import events as ev
from baton.core.executor.steps import StepItem, StepPlan, StepResult
from baton.core.trace.chrome import ProcessTrace, chrome_trace
from baton.core.trace.lanes import SHAPES
from baton.core.trace.recorder import Recorder, note_record
from tests.support.traces import check_trace, lanes

ID = (5 << 31) + 3


def named(trace: dict, name: str) -> list[dict]:
    return [event for event in trace["traceEvents"] if event["name"] == name]


def launch(number: int, decodes: int, tokens: int) -> ev.Launch:
    items = (StepItem(1, 0, tokens, 1, b""),) if tokens else ()
    return ev.Launch(StepPlan(number, (), (), (), items, tuple(range(2, 2 + decodes))))


def test_steps_follow_each_other_on_the_device_with_what_they_computed() -> None:
    recorder = Recorder(100)
    recorder.turn(Wake(), [launch(1, 0, 512), launch(2, 3, 0)], 10.0, 10.0)
    recorder.turn(ev.StepDone(StepResult(1, (), 0.9, 0)), [launch(3, 3, 64)], 11.0, 11.0)
    recorder.turn(ev.StepDone(StepResult(2, (), 0.5, 4)), [], 11.5, 11.5)
    trace = chrome_trace([ProcessTrace("decode", "decode", 12.0, recorder.since(0.0))])
    check_trace(trace)
    shown = [(e["name"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(name, round(ts), round(dur)) for name, ts, dur in shown] == [
        ("prefill", 0, 900_000),
        ("decode", 900_000, 500_000),
        ("mixed", 1_400_000, 600_000),
    ]
    args = named(trace, "decode")[-1]["args"]
    assert (args["decodes"], args["padded_batch"]) == (3, 4)
    assert args["queued_ms"] == pytest.approx(900.0)
    assert args["heard_ms"] == pytest.approx(100.0)
    assert named(trace, "mixed")[0]["args"]["unfinished"]


def test_h10_every_mark_of_a_closing_line_is_in_its_lane_and_stages_follow_each_other() -> None:
    numbers = {"admitted_s": 1.0, "launched_ms": 500.0, "first_chunk_ms": 600.0, "computed_ms": 900.0}
    numbers |= {"commit_ms": 1100.0, "post_ms": 7.0, "landed_ms": 1250.0, "early_share": 0.5}
    note = note_record(Note("prefill ended", ID, 0, numbers=numbers), 2.5)
    trace = chrome_trace([ProcessTrace("prefill", "prefill", 3.0, [note])])
    check_trace(trace)
    marks = lanes(trace)["prefill", str(ID)]
    assert marks == {
        "begin": 0.0,
        "launched": 0.5e6,
        "first_chunk": 0.6e6,
        "computed": 0.9e6,
        "commit": 1.1e6,
        "landed": 1.25e6,
        "end": 1.5e6,
    }
    args = next(e for e in trace["traceEvents"] if e["ph"] == "b")["args"]
    assert (args["post_ms"], args["early_share"]) == (7.0, 0.5)  # how long it took, not when
    begins = [(e["name"], e["ts"]) for e in trace["traceEvents"] if e["ph"] == "b"][1:]
    assert begins == [("queued", 0.0), ("prefill", 0.5e6), ("transfer", 0.9e6)]


def test_what_is_under_way_ends_where_the_trace_does_and_says_so() -> None:
    note = note_record(Note("request ended", ID, 0, numbers={"arrived_s": 1.0, "placed_ms": 250.0}), 2.0)
    trace = chrome_trace([ProcessTrace("router", "router", 2.0, [], [note])])
    check_trace(trace)
    assert next(e for e in trace["traceEvents"] if e["ph"] == "b")["args"]["unfinished"]


def test_c28_a_hold_is_shown_with_its_reason_what_ended_it_and_until_when_it_could_have_lasted() -> None:
    recorder = Recorder(10)
    recorder.turn(Wake(), [Span("hold", 1.0, 1.5, Reason.HELD, 3.0, "fill")], 1.5, 1.5)
    trace = chrome_trace([ProcessTrace("unified", "unified", 2.0, recorder.since(0.0))])
    check_trace(trace)
    begin, end = named(trace, "hold")
    assert begin["args"] == {"reason": "HELD", "ended_by": "fill", "until_us": 2e6}
    assert end["ts"] - begin["ts"] == 0.5e6


def test_pieces_are_shown_from_their_post_to_their_landing() -> None:
    recorder = Recorder(10, slot_bytes=64)
    pieces = tuple(ev.Piece(number, "decode", 1, 0, 0, 0, 16, 0, 2) for number in (1, 2, 3))
    recorder.turn(Wake(), [ev.Post(pieces)], 1.0, 1.0)
    recorder.turn(ev.PieceLanded(1, 0.01, 1.25), [], 1.5, 1.5)
    recorder.turn(ev.PieceFailed(2), [], 2.0, 2.0)
    trace = chrome_trace([ProcessTrace("prefill", "prefill", 2.0, recorder.since(0.0))])
    check_trace(trace)
    landed, failed, flying = [e for e in named(trace, "KV to decode") if e["ph"] == "b"][::-1]
    assert (landed["args"]["bytes"], landed["args"]["waited_ms"], landed["ts"]) == (2048, 250.0, 0.25e6)
    assert {*failed["args"], *flying["args"]} == {"bytes", "failed", "unfinished"}


def test_h10_the_times_of_all_processes_are_on_one_clock_and_the_error_is_told() -> None:
    here = note_record(Note("tick", 1), 100.0)
    there = note_record(Note("tock", 1), 7.5)
    one = ProcessTrace("router", "router", 100.0, [here])
    other = ProcessTrace("decode", "decode", 8.0, [there], offset_s=93.0, error_s=2e-4)
    trace = chrome_trace([one, other])
    check_trace(trace)
    assert named(trace, "tock")[0]["ts"] - named(trace, "tick")[0]["ts"] == 0.5e6
    assert trace["otherData"]["clocks"]["decode"] == {"offset_us": 93e6, "error_us": 200.0}


@given(st.data())
def test_whatever_was_recorded_the_trace_is_valid_json_that_a_viewer_can_show(data: st.DataObject) -> None:
    recorder = Recorder(data.draw(st.integers(1, 30)), 64)
    now, num_steps = 100.0, 0
    times = st.floats(0.0, 3.0, allow_nan=False)
    for request_id in range(1, data.draw(st.integers(1, 26))):
        now += data.draw(times)
        what = data.draw(st.sampled_from(["launch", "done", "note", "span", "post", "land"]))
        event, commands = Wake(), []
        if what == "launch":
            num_steps += 1
            commands = [launch(num_steps, data.draw(st.integers(0, 2)), data.draw(st.integers(0, 9)))]
        elif what == "done":
            event = ev.StepDone(StepResult(data.draw(st.integers(0, num_steps + 1)), (), data.draw(times)))
        elif what == "note":
            shape = data.draw(st.sampled_from(sorted(SHAPES)))
            numbers = {f"{mark}_ms": data.draw(times) * 1e3 for _, mark in SHAPES[shape].stages}
            numbers[SHAPES[shape].begins] = now - data.draw(times)
            commands = [Note(shape, request_id, numbers=numbers)]
        elif what == "span":
            commands = [Span("hold", now - data.draw(times), now, Reason.HELD, now)]
        elif what == "post":
            commands = [ev.Post((ev.Piece(data.draw(st.integers(1, 9)), "decode", 1, 0, 0, 0, 1, 0, 1),))]
        else:
            event = ev.PieceLanded(data.draw(st.integers(1, 9)), 0.0, now - data.draw(times))
        recorder.turn(event, commands, now, now + data.draw(times))
        now += 3.0
    process = ProcessTrace("unified", "unified", now + 1.0, recorder.since(0.0))
    trace = msgspec.json.decode(msgspec.json.encode(chrome_trace([process])))
    check_trace(trace)
