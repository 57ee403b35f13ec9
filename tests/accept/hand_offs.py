"""Rows of the simulator: what a hand-off costs decode, and what placement recovers of a split that fits badly."""

from __future__ import annotations

import msgspec

from baton.core.sim.fleet_run.arms import Arm, Figures, scenario_of, split_arms
from baton.core.sim.fleet_run.scenario_file import read_scenario
from baton.services.sim.load import load_of
from baton.services.sim.run import simulate
from tests.accept.commands import BATON, RAN_PAST_LIMIT, run
from tests.accept.row import Options, Row, cannot_run, judged

LIMIT_S = 900.0
AIM_RATE, AIM_TAIL = 0.005, 0.10
NUM_REQUESTS, NUM_REQUESTS_QUICK = 2048, 512


def window(options: Options) -> Row:
    asked = (
        f"8,192 tokens in, 1,024 out, 1,024 at once, KV over wires that prompts keep busy: output rate within "
        f"{AIM_RATE:.1%} and p95 TPOT within {AIM_TAIL:.0%} of KV that lands at once (published: −1.2 %, +121 %)"
    )
    told = read_scenario("transfer_window")
    arms = split_arms(told)
    assert arms is not None
    told["load"]["num_requests"] = NUM_REQUESTS_QUICK if options.quick else NUM_REQUESTS
    at_once, ours = [_figures(told, arm) for arm in arms.arms if arm.name in ("landing at once", "ours")]
    rate = ours.value("output_tokens_per_s") / at_once.value("output_tokens_per_s") - 1
    tails = {p: ours.value(f"tpot_s.{p}") / at_once.value(f"tpot_s.{p}") - 1 for p in ("p50", "p90", "p95", "p99")}
    measured = f"rate {rate:+.2%}; TPOT " + ", ".join(f"{name} {change:+.1%}" for name, change in tails.items())
    is_met = rate >= -AIM_RATE and tails["p95"] <= AIM_TAIL
    return judged(asked, measured, is_met, rate=rate, tails=tails)


def unbalanced_pair(_: Options) -> Row:
    asked = (
        "long prompts, short answers: 1P1D with prefill on P alone loses to two replicas, and placement by predicted "
        "time recovers most of it on D; long answers: both lose"
    )
    done = run([*BATON, "sim", "--scenario", "unbalanced_pair"], LIMIT_S)
    if done.code == RAN_PAST_LIMIT:
        return cannot_run(asked, f"it did not end within {LIMIT_S:.0f} s")
    told = [line for line in done.output.splitlines() if ": prompts: " in line or ": answers: " in line]
    return judged(asked, "; ".join(told) or done.last_line, done.code == 0 and bool(told))


def _figures(told: dict[str, object], arm: Arm) -> Figures:
    scenario = scenario_of(told, msgspec.structs.replace(arm, over=""))
    return Figures(simulate(scenario, load_of(scenario)))
