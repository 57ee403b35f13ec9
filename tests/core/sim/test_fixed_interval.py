"""What others built for prompts to wait for company, and its faults; ours beside it, on the same queue."""

from __future__ import annotations

from typing import Any

import pytest

from baton.core.events import Wake
from baton.core.executor import gate
from baton.core.sim.baselines.fixed_interval import Bounds, FixedInterval
from baton.core.sim.fleet_run.arms import scenario_of, split_arms
from baton.core.sim.fleet_run.scenario_file import make_scenario, read_scenario
from baton.services.sim.load import load_of
from baton.services.sim.run import simulate
from tests.support.alternating import add, alternating, kinds
from tests.support.machines import ExecutorRig

FIXED = "baton.core.sim.baselines.fixed_interval:make"


def is_of_prompts(rig: ExecutorRig, policy: FixedInterval) -> bool:
    return any(item.num_tokens > 1 for item in policy.next_step(rig.state).items)


def test_c3_their_estimate_of_a_deep_queue_is_that_of_four_entries_and_ours_is_full():
    rig = alternating(
        num_blocks=16384, num_slots=512, token_budget=16384, long_prefill_tokens=16384, hold="fill", hold_fill=0.9
    )  # fmt: skip
    add(rig, 1001, 200)
    for number in range(1002, 1257):
        rig.is_checked = False  # so many are checked once, at the end
        add(rig, number, 200)
    policy = FixedInterval(Bounds(interval=4))
    assert not is_of_prompts(rig, policy)
    assert policy.fill == pytest.approx(0.05, abs=0.002)
    assert gate.next_step(rig.state).num_tokens == 16384
    assert rig.state.counters["fires_fill"] == 1


def test_c17_an_overdue_prompt_that_cannot_be_admitted_lets_everything_go_with_theirs_and_nothing_with_ours():
    rig = alternating(hold="fill", hold_fill=1.0, hold_max_ms=5000.0)
    add(rig, 3, 4)
    rig.state.queue.set_demand(rig.sequence_of(3).seq_id, 7, 0)  # what no walk looks for
    rig.is_checked = False
    rig.now += 6.0
    add(rig, 4, 4)
    policy = FixedInterval(Bounds(interval=4))
    assert [is_of_prompts(rig, policy) for _ in range(6)] == [True, False, False, False, False, True]
    assert policy.held == 0
    assert kinds(rig, 6) == "DDDDDD"


def test_c9_their_interval_goes_before_the_age_of_a_prompt_and_ours_does_not():
    rig = alternating(protect_steps=4, hold_max_ms=5000.0)
    policy = FixedInterval(Bounds(interval=4))
    policy.interval_left = 4
    rig.state.gate.protect_left = 4
    add(rig, 3, 8)
    rig.now += 6.0
    rig.do(Wake())
    assert [is_of_prompts(rig, policy) for _ in range(5)] == [False] * 4 + [True]
    assert kinds(rig, 2) == "DP"


def test_c28_their_hold_is_counted_in_passes_so_that_its_time_is_that_of_steps():
    rig = alternating()
    rig.is_checked = False
    policy = FixedInterval(Bounds(interval=4))
    add(rig, 3, 4)
    passes = [is_of_prompts(rig, policy) for _ in range(12)]
    assert passes.index(True) == 10  # one that saw it grow, and ten without


def test_c6_the_estimate_counts_what_is_to_compute():
    rig = alternating(hold="fill", hold_fill=1.0, token_budget=64, long_prefill_tokens=64)
    add(rig, 3, 32)
    policy = FixedInterval(Bounds(interval=4))
    assert not is_of_prompts(rig, policy)
    assert policy.fill == 0.5


def table(**fields: Any) -> dict[str, Any]:
    asks = [{"at_s": 0.05 * n, "input_tokens": 200 + 40 * (n % 5), "output_tokens": 20} for n in range(40)]
    told = {"name": "t", "topology": "1U", "profile": "a100-opt13b-tp1", "asks": asks}
    return told | {"executor": {"step_mode": "alternate", "piece_bytes": 67108864, "hold": "off"}} | fields


def test_c10_with_interval_0_theirs_are_the_steps_of_ours_with_nothing_on():
    ours = table(unified={"protect_steps": 0})
    theirs = table(parts=FIXED, parts_settings={"interval": 0})
    runs = [simulate(made, load_of(made)) for made in (make_scenario(ours), make_scenario(theirs))]
    assert runs[0].facts == runs[1].facts
    assert runs[0].recorder.steps == runs[1].recorder.steps


def test_an_interval_takes_steps_of_prompts_together():
    runs = []
    for interval in (0, 4):
        made = make_scenario(table(parts=FIXED, parts_settings={"interval": interval}))
        runs.append(sum(step.features.prompts > 0 for step in simulate(made, load_of(made)).recorder.steps))
    assert runs[1] < runs[0]


@pytest.mark.parametrize("name", ["coalesce_c16", "coalesce_c64"])
def test_every_arm_of_the_source_scenarios_is_a_scenario(name):
    told = read_scenario(name)
    arms = split_arms(told)
    assert arms is not None
    for arm in arms.arms:
        assert scenario_of(told, arm).fleet().groups[0].config.long_prefill_tokens < 4096
