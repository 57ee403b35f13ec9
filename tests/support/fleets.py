"""Small fleets whose figures can be computed by hand, and loads for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baton.core.config import ExecutorConfig, SchedulerConfig
from baton.core.knob_effects import with_effect
from baton.core.metrics.facts import RequestFacts
from baton.core.sim.fleet_run.clients import MakeSchedule
from baton.core.sim.fleet_run.request import SimRequest
from baton.core.sim.fleet_run.run import FleetRun, run_fleet
from baton.core.sim.fleet_run.spec import ExecutorGroup, FleetSpec, Wires, parse_topology
from baton.core.sim.step_time.features import Feature
from baton.core.sim.step_time.model import KindModel, StepModel, affine
from baton.core.sim.step_time.profile import KvGeometry, Profile
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.worker_schedule import Schedule, opening_times

INSTANT = Wires(latency_s=0.0, kv_bytes_per_s=1e15, kv_setup_s=0.0, poll_s=0.0)
BLOCK_SIZE = 16


def kind(noise: float = 0.0, **seconds: float) -> KindModel:
    """`one=0.1, tokens=1e-3`: seconds for each unit of a feature."""
    terms: list[tuple[Feature, float]] = [(name, value) for name, value in seconds.items()]  # type: ignore[misc]
    return affine(terms, noise)


def fleet(
    topology: str,
    steps: StepModel,
    *,
    num_blocks: int = 4000,
    wires: Wires = INSTANT,
    placement: str = "always_pd",
    num_kv_layers: int = 1,
    **knobs: Any,
) -> FleetSpec:
    """All executors alike; prompts are computed by prefill executors, if there are any."""
    profile = Profile(
        name="by hand",
        source="a test",
        kv=KvGeometry(num_kv_layers=num_kv_layers, num_kv_heads=1, head_dim=8),
        kv_tokens=num_blocks * BLOCK_SIZE,
        steps=steps,
    )
    config = ExecutorConfig(**knobs)
    groups = [
        ExecutorGroup(
            role=role, count=count, profile=profile, config=with_effect(config, role), num_blocks=num_blocks
        )
        for role, count in parse_topology(topology)
    ]
    scheduler = SchedulerConfig(placement=placement)
    layout = profile.kv.layout(BLOCK_SIZE, "by hand")
    return FleetSpec(groups=tuple(groups), layout=layout, max_model_len=100_000, wires=wires, scheduler=scheduler)


def at_times(requests: Sequence[SimRequest], times: Sequence[float]) -> list[MakeSchedule]:
    """Each request is due at its time."""
    planned = [
        PlannedRequest(index=request.index, at_s=at_s, max_tokens=request.num_output_tokens)
        for request, at_s in zip(requests, times, strict=True)
    ]
    return [lambda start_s, ended: Schedule(planned, start_s, None, ended)]


def closed_loop(requests: Sequence[SimRequest], concurrency: int) -> list[MakeSchedule]:
    """So many are open at once."""
    planned = [PlannedRequest(index=request.index, max_tokens=request.num_output_tokens) for request in requests]
    return [lambda start_s, ended: Schedule(planned, start_s, opening_times(concurrency, 0.0, start_s), ended)]


def asks(count: int, num_input_tokens: int, num_output_tokens: int) -> list[SimRequest]:
    """That many alike."""
    return [
        SimRequest(index=index, num_input_tokens=num_input_tokens, num_output_tokens=num_output_tokens)
        for index in range(count)
    ]


def run(spec: FleetSpec, requests: Sequence[SimRequest], phases: list[MakeSchedule], seed: int = 0) -> FleetRun:
    return run_fleet(spec, requests, phases, seed)


def ttft_s(facts: RequestFacts) -> float:
    return facts.chunks[0].time_s - facts.scheduled_s
