"""Facts of a run that explain its figures: what each kind of executor did, and where requests waited."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from baton.core.metrics.percentiles import percentile
from baton.core.sim.fleet_run.records import StepRecord
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.spec import ExecutorGroup, FleetSpec


class RoleUse(msgspec.Struct, frozen=True, kw_only=True):
    """Executors of one role, together. Means over steps weigh a step by its duration. 0.0 where there was no step."""

    count: int
    busy: float  #: share of the run in which an executor computed
    decodes: float  #: sequences that decode at once on one executor, while it decodes
    kv_use: float  #: tokens that these have, as a part of the tokens that its memory holds
    decode_step_s: float  #: of a step of decodes alone
    mixed_step_s: float  #: of a step with prompts and decodes
    mixed_share: float  #: of the decoded tokens, those of steps with prompts


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Stages of a request's way; percentiles over requests, in seconds. 0.0 where no request had the stage."""

    placed_p90_s: float  #: from its coming until it had an executor
    computed_p90_s: float  #: from its placement to its first token
    handed_over_p50_s: float  #: from its first token on a prefill executor to the second, on a decode executor
    prompts_on_decode: float  #: share of the prompts that decode executors computed


def uses_of(run: FleetRun, fleet: FleetSpec) -> dict[str, RoleUse]:
    """By the role's name."""
    steps: dict[str, list[StepRecord]] = {}
    for step in run.recorder.steps:
        steps.setdefault(step.executor.partition("-")[0], []).append(step)
    busy: dict[str, list[float]] = {}
    for use in run.uses:
        busy.setdefault(use.name.partition("-")[0], []).append(use.busy_share)
    found = {}
    for group in fleet.groups:
        name = group.role.name.lower()
        found[name] = _use(group, fleet, busy.get(name, [0.0]), steps.get(name, []))
    return found


def waits_of(run: FleetRun) -> Waits:
    placed, computed, handed_over = [], [], []
    for note in run.recorder.notes:
        numbers = note.numbers
        if note.what != "request ended" or "first_token_ms" not in numbers:
            continue
        placed.append(numbers.get("placed_ms", 0.0) / 1e3)
        computed.append(numbers["first_token_ms"] / 1e3 - placed[-1])
        if "handed_over_ms" in numbers:
            handed_over.append((numbers["handed_over_ms"] - numbers["first_token_ms"]) / 1e3)
    gauges = run.gauges.get("scheduler", {})
    on_decode = sum(gauges.get(f"placed_{why}_total", 0.0) for why in ("cached", "short", "p_busy", "p_down"))
    return Waits(
        placed_p90_s=_percentile(placed, 90.0),
        computed_p90_s=_percentile(computed, 90.0),
        handed_over_p50_s=_percentile(handed_over, 50.0),
        prompts_on_decode=on_decode / (gauges.get("placements_total") or 1.0),
    )


def _use(group: ExecutorGroup, fleet: FleetSpec, busy: list[float], steps: list[StepRecord]) -> RoleUse:
    decoding = [step for step in steps if step.features.decodes]
    decode_only = [step for step in decoding if not step.features.prompts]
    mixed = [step for step in decoding if step.features.prompts]
    kv_tokens = group.num_blocks * fleet.block_size
    num_decoded = sum(step.features.decodes for step in decoding)
    return RoleUse(
        count=group.count,
        busy=math.fsum(busy) / len(busy),
        decodes=_weighted((step.features.decodes, step.duration_s) for step in decoding),
        kv_use=_weighted((step.features.context / kv_tokens, step.duration_s) for step in decoding),
        decode_step_s=_weighted((step.duration_s, step.duration_s) for step in decode_only),
        mixed_step_s=_weighted((step.duration_s, step.duration_s) for step in mixed),
        mixed_share=sum(step.features.decodes for step in mixed) / num_decoded if num_decoded else 0.0,
    )


def _weighted(pairs: Iterable[tuple[float, float]]) -> float:
    known = list(pairs)
    weight = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / weight if weight else 0.0


def _percentile(values: list[float], percent: float) -> float:
    return percentile(sorted(values), percent) if values else 0.0
