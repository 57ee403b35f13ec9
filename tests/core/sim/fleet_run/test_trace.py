"""A simulated run as a trace: the same format, the same stages as of real processes."""

from __future__ import annotations

import json

import msgspec

from baton.core.sim.fleet_run.scenario_file import make_scenario, read_scenario, set_value
from baton.core.sim.fleet_run.trace import trace_of
from baton.services.sim.load import load_of
from baton.services.sim.run import simulate
from tests.support.traces import check_trace, lanes


def test_h10_every_stage_of_every_simulated_request_is_in_the_trace_in_the_order_of_cause_and_effect() -> None:
    table = read_scenario("small")
    set_value(table, "load.num_sessions=6")
    set_value(table, "scheduler.placement=always_pd")  # else decode executors compute some prompts themselves
    scenario = make_scenario(table)
    run = simulate(scenario, load_of(scenario))
    trace = json.loads(msgspec.json.encode(trace_of(run)))
    check_trace(trace)
    found = lanes(trace)
    requests = {request for process, request in found if process == "router-0"}
    assert len(requests) == len(run.facts) > 6
    for request in requests:
        prefill, decode, router = (found[name, request] for name in ("prefill-0", "decode-0", "router-0"))
        assert router["begin"] <= prefill["begin"] <= prefill["launched"] < prefill["computed"] <= prefill["commit"]
        assert prefill["commit"] < prefill["landed"] <= decode["landed"] <= decode["activated"] < decode["last_token"]
        assert decode["last_token"] <= router["last_token"] <= router["end"]
    steps = [event for event in trace["traceEvents"] if event.get("cat") == "step"]
    assert len(steps) == len(run.recorder.steps)
    assert sum(step["args"]["prompt_tokens"] for step in steps) == sum(s.features.tokens for s in run.recorder.steps)
