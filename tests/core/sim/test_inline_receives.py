"""Receives that the launching loop sets up: what a full bounce buffer costs decode, and what each window costs."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from baton.core.metrics.percentiles import describe
from baton.core.sim.fleet_run.arms import Figures
from baton.core.sim.fleet_run.parts import BadParts, load_parts
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.services.sim.load import load_of
from baton.services.sim.run import simulate

PARTS = "baton.core.sim.baselines.inline_receives:make"
BLOCK_BYTES = 40 * 2 * 64 * 40 * 128 * 2
PROMPT_BLOCKS, ANSWER = 8, 64
WAIT_S = 0.5


@cache
def run_of(window: str, bounce_blocks: int = PROMPT_BLOCKS) -> FleetRun:
    """Eight prompts of eight blocks, each of which takes half a second on the wires; answers of 64 tokens."""
    parts: dict[str, Any] = {}
    if window:
        settings = {"bounce_bytes": bounce_blocks * BLOCK_BYTES, "window": window}
        parts = {"parts": PARTS, "parts_settings": settings | ({"wait_s": WAIT_S} if window == "none" else {})}
    table = {
        "name": "t",
        "topology": "1P1D",
        "profile": "a100-opt13b-tp1",
        "executor": {"piece_bytes": BLOCK_BYTES, "handoff_lead_steps": 0.0},
        "scheduler": {"placement": "always_pd", "handoff_slack": 1.0},
        "wires": {"kv_bytes_per_s": 2 * PROMPT_BLOCKS * BLOCK_BYTES},
        "asks": [{"at_s": 0.1 * n, "input_tokens": 64 * PROMPT_BLOCKS, "output_tokens": ANSWER} for n in range(8)],
    }
    scenario = make_scenario(table | parts)
    return simulate(scenario, load_of(scenario))


def occupied(run: FleetRun) -> float:
    return next(use.occupied_share for use in run.uses if use.name == "decode-0")


def rolled_back(run: FleetRun) -> float:
    return run.gauges["decode-0"].get("blocks_rolled_back_total", 0.0)


def longest_gap_s(run: FleetRun) -> float:
    """Between two steps of decode one after the other."""
    began = sorted((step.began_s, step.duration_s) for step in run.recorder.steps if step.features.decodes)
    return describe([after[0] - sum(before) for before, after in pairwise(began)]).max or 0.0


def test_without_a_window_the_loop_waits_for_the_buffer_and_decode_with_it():
    run = run_of("none")
    assert occupied(run) > 0.5
    assert longest_gap_s(run) > 0.8 * WAIT_S
    assert rolled_back(run) == 0


@pytest.mark.parametrize("window", ["early", "late", ""], ids=["early", "late", "ours"])
def test_w3_with_a_window_no_step_waits_for_a_receive(window):
    run = run_of(window)
    assert occupied(run) == 0
    assert Figures(run).value("tpot_s.max") < Figures(run_of("none")).value("tpot_s.max") / 2


def test_w2_a_late_window_alone_allocates_and_gives_back_again_and_again():
    assert rolled_back(run_of("late")) > 10 * 8 * PROMPT_BLOCKS
    assert rolled_back(run_of("early")) == rolled_back(run_of("")) == 0


def test_a_receive_that_is_larger_than_the_buffer_goes_alone():
    runs = [run_of("early", bounce_blocks) for bounce_blocks in (1, PROMPT_BLOCKS)]
    assert runs[0].facts == runs[1].facts
    assert all(row.num_output_tokens == ANSWER for row in runs[0].facts)


def test_a_buffer_for_all_of_them_makes_nobody_wait():
    assert occupied(run_of("none", 100)) == 0


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"window": "none"}, "wait_s"), ({"window": "early", "wait_s": 1.0}, "wait_s"), ({"window": "soon"}, "soon")],
)
def test_settings_that_say_nothing_are_named(settings, what):
    with pytest.raises(BadParts, match=what):
        load_parts(PARTS, {"bounce_bytes": 1} | settings)
