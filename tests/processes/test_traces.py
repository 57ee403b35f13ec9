"""`baton trace` on real processes: all stages of every request, in the order of cause and effect, and no word of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from baton.services.trace import __main__ as command
from tests.processes.conftest import NAMES, Stage
from tests.support.completions import Question, ask, check_answer
from tests.support.stack import Stack
from tests.support.traces import check_trace, lanes

#: what comes before what, by process and mark; within a host all is on one clock
CAUSES = (
    (("router", "begin"), ("scheduler", "begin")),
    (("scheduler", "begin"), ("scheduler", "placed")),
    (("scheduler", "placed"), ("prefill", "begin")),
    (("prefill", "begin"), ("prefill", "launched")),
    (("prefill", "launched"), ("prefill", "computed")),
    (("scheduler", "handed_over"), ("decode", "begin")),
    (("prefill", "first_chunk"), ("prefill", "commit")),
    (("prefill", "commit"), ("prefill", "landed")),
    (("decode", "begin"), ("prefill", "first_chunk")),
    (("prefill", "first_chunk"), ("decode", "first_chunk")),
    (("prefill", "landed"), ("decode", "landed")),
    (("decode", "landed"), ("decode", "activated")),
    (("decode", "activated"), ("decode", "launched")),
    (("decode", "launched"), ("decode", "last_token")),
    (("prefill", "first_token"), ("router", "first_token")),
    (("scheduler", "placed"), ("router", "placed")),
    (("decode", "last_token"), ("router", "last_token")),
    (("router", "last_token"), ("router", "end")),
)
SECRET = "xyzzy"


async def traced(stack: Stack, *flags: str) -> tuple[dict[str, Any], str]:
    """The trace of the last minute, and its text."""
    out = stack.folder / "trace.json"
    told = ["--run-folder", str(stack.folder), "--out", str(out), "--seconds", "60", *flags]
    assert await asyncio.to_thread(command.main, told) == 0
    text = out.read_text()
    return json.loads(text), text


def questions(count: int) -> list[Question]:
    return [Question(tuple(range(40 + index)), 6, index) for index in range(count)]


async def ask_in_words(stack: Stack) -> str:
    """An answer to a prompt with a secret in it."""
    body = {"model": "tiny", "prompt": f"Tell nobody: {SECRET}", "max_tokens": 6, "user": SECRET}
    async with stack.session.post(f"{stack.url}/v1/completions", json=body) as answer:
        assert answer.status == 200
        return str((await answer.json())["choices"][0]["text"])


def values(told: Any) -> Iterator[Any]:
    """All that is no list and no object."""
    if isinstance(told, dict | list):
        for inner in told.values() if isinstance(told, dict) else told:
            yield from values(inner)
    else:
        yield told


def test_h10_a_trace_has_every_stage_of_every_request_in_the_order_of_cause_and_effect(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        asked = questions(6)
        answers = await asyncio.gather(*[ask(stack.session, stack.url, question) for question in asked])
        for question, answer in zip(asked, answers, strict=True):
            check_answer(question, answer)
        spoken = await ask_in_words(stack)
        await stack.quiescent()
        trace, text = await traced(stack)
        check_trace(trace)
        found = lanes(trace)
        requests = {request for process, request in found if process == "router"}
        assert len(requests) == 7
        for request in requests:
            for (before, mark), (after, later) in CAUSES:
                earlier, then = found[before, request][mark], found[after, request][later]
                assert earlier <= then, f"{before} {mark} at {earlier}, {after} {later} at {then}"
        kinds = {event["name"] for event in trace["traceEvents"] if event.get("cat") == "step"}
        assert {"prefill", "decode"} <= kinds
        assert any(event["name"] == "KV to decode" for event in trace["traceEvents"])
        assert set(trace["otherData"]["clocks"]) == set(NAMES)
        assert all(clock == {"offset_us": 0.0, "error_us": 0.0} for clock in trace["otherData"]["clocks"].values())
        assert SECRET not in text
        assert spoken
        assert not any(spoken in value for value in values(trace) if isinstance(value, str))

    stage.run(story)


def test_w6_a_request_that_waits_is_shown_with_its_reason_and_those_under_way_too(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        slow = [asyncio.ensure_future(ask(stack.session, stack.url, q)) for q in questions(12)]
        while not (await stack.gauges("scheduler"))["queued"]:
            await asyncio.sleep(0.01)
        trace, _ = await traced(stack)
        check_trace(trace)
        shown = [event["args"] for event in trace["traceEvents"] if event["ph"] == "b"]
        assert any(args.get("unfinished") for args in shown)
        await asyncio.gather(*slow)
        trace, _ = await traced(stack)
        check_trace(trace)
        waits = [e["args"] for e in trace["traceEvents"] if e.get("cat") == "wait" and e["ph"] == "b"]
        assert any(args.get("reason") for args in waits)

    slots = ("--num-slots", "2")
    stage.run(story, prefill=("--step-time-s", "0.02", *slots), decode=("--step-time-s", "0.02", *slots))


def test_a_process_that_keeps_nothing_is_left_out_and_the_rest_is_shown(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        trace, _ = await traced(stack)
        check_trace(trace)
        assert set(trace["otherData"]["clocks"]) == set(NAMES) - {"decode"}

    stage.run(story, decode=("--trace-events", "0"))


def test_c14_and_c28_what_keeps_prompts_back_is_shown_with_its_reason_its_bound_and_what_ended_it(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        await asyncio.gather(*[ask(stack.session, stack.url, q._replace(max_tokens=20)) for q in questions(12)])
        trace, _ = await traced(stack)
        check_trace(trace)
        kept = [e["args"] for e in trace["traceEvents"] if e.get("cat") == "wait" and e["name"] == "protection"]
        begun = [args for args in kept if args]
        assert begun
        assert all(args["reason"] == "PROTECTED" for args in begun)
        assert any(args.get("ended_by") for args in begun)
        assert all(args["until_us"] > 0 for args in begun)
        kinds = {event["name"] for event in trace["traceEvents"] if event.get("cat") == "step"}
        assert kinds == {"prefill", "decode"}

    alternate = ("--step-mode", "alternate", "--protect-steps", "3", "--step-time-s", "0.002")
    stage.run(story, ("scheduler", "unified", "router"), unified=alternate)
