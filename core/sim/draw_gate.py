"""Draws how executors alternate between decodes and prompts, and how sequences join the batch: towards the edges."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from baton.core.ids import Role
from baton.core.knob_effects import with_effect
from baton.core.sim.scenario import Scenario


def with_gates(rng: Random, scenario: Scenario) -> Scenario:
    """Some executors that decode alternate; most of those that receive let sequences join by a rule of their own."""
    executors = []
    for spec in scenario.executors:
        knobs = _gate(rng) if spec.role.runs_decode and spec.config.step_mode == "mixed" and rng.random() < 0.6 else {}
        if spec.role is Role.DECODE:
            knobs |= _joining(rng)
        executors.append(replace(spec, config=with_effect(replace(spec.config, **knobs), spec.role)))
    return replace(scenario, executors=tuple(executors))


def _gate(rng: Random) -> dict[str, Any]:
    hold = rng.choice(("off", "fill", "fill", "adaptive", "adaptive"))
    knobs: dict[str, Any] = {
        "step_mode": "alternate",
        "hold": hold,
        "hold_max_ms": rng.choice((5.0, 50.0, 500.0, 500.0)),
        "hold_partial_ms": rng.choice((5.0, 50.0, 200.0, 1000.0)),
        "hold_kv_high": rng.choice((0.0, 0.5, 0.9, 1.0)),
        "hold_batch_low": rng.choice((0, 0, 0, 1, 2, 4)),
        "protect_steps": rng.choice((0, 1, 2, 4, 16)),
    }
    if knobs["protect_steps"]:
        knobs["protect"] = rng.choice(("fixed", "fixed", "adaptive"))
    if hold == "fill":
        knobs["hold_fill"] = rng.choice((0.0, 0.25, 0.5, 1.0))
    if hold != "off":
        knobs["hold_stall_ms"] = rng.choice((1.0, 20.0, 50.0, 400.0))
    if hold == "adaptive":
        knobs["itl_target_ms"] = rng.choice((0.0, 0.0, 5.0, 50.0))
    return knobs


def _joining(rng: Random) -> dict[str, Any]:
    return {
        "join_share": rng.choice((0.0, 0.125, 0.125, 1.0)),
        "join_max_steps": rng.choice((0, 1, 4, 100)),
        "join_max_ms": rng.choice((1.0, 50.0, 50.0, 500.0)),
    }
