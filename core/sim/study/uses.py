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
    kv_use: float  #: tokens that these have, each its own, as a part of those that its memory has room for: with shared
    #: prefixes it may be above 1
    decode_step_s: float  #: of a step of decodes alone
    mixed_step_s: float  #: of a step with prompts and decodes
    mixed_share: float  #: of the decoded tokens, those of steps with prompts
    prompt_step_s: float = 0.0  #: of a step of prompts alone


class TokenTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Of the tokens that were decoded: what its executor computed for each since its decode step before. 0.0 where
    there was none."""

    decode_s: float  #: mean of those for which it computed decodes alone
    prompts_s: float  #: by how much the mean of all is longer
    late_alone: float  #: share of all for which it computed decodes alone, longer than the bound of ITL
    late_with_prompts: float  #: share of all for which it computed prompts too, longer than that


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Stages of a request's way; percentiles over requests, in seconds. 0.0 where no request had the stage."""

    placed_p90_s: float  #: from its coming until it had an executor
    placed_p99_s: float
    computed_p90_s: float  #: from its placement to its first token
    computed_p99_s: float
    handed_over_p50_s: float  #: from its first token on a prefill executor to the second, on a decode executor
    handed_over_p90_s: float
    handed_over_p99_s: float
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
        placed_p99_s=_percentile(placed, 99.0),
        computed_p90_s=_percentile(computed, 90.0),
        computed_p99_s=_percentile(computed, 99.0),
        handed_over_p50_s=_percentile(handed_over, 50.0),
        handed_over_p90_s=_percentile(handed_over, 90.0),
        handed_over_p99_s=_percentile(handed_over, 99.0),
        prompts_on_decode=on_decode / (gauges.get("placements_total") or 1.0),
    )


def token_times(steps: Iterable[StepRecord], limit_s: float | None) -> TokenTimes:
    """`steps` in the order in which each executor computed its own; those of prompts alone between two with decodes
    hold up the sequences of both, but not those whose prompts they were. `limit_s` of ITL; None: it has no bound, and
    nothing is late."""
    prompts: dict[tuple[str, int], tuple[float, int]] = {}  # alone, since the last step with decodes: (seconds, new)
    decoding: dict[tuple[str, int], int] = {}  # in that one
    alone, shared = list[tuple[float, int]](), list[tuple[float, int]]()  # (seconds, tokens)
    for step in steps:
        lane, decodes = (step.executor, step.lane), step.features.decodes
        before_s, num_new = prompts.pop(lane, (0.0, 0))
        if not decodes:
            prompts[lane] = before_s + step.duration_s, num_new + step.features.rows
            continue
        held_up = min(max(decodes - num_new, 0), decoding.get(lane, 0)) if before_s else 0
        if held_up:
            shared.append((before_s + step.duration_s, held_up))
        if decodes > held_up:
            (shared if step.features.prompts else alone).append((step.duration_s, decodes - held_up))
        decoding[lane] = decodes
    total = sum(tokens for _, tokens in (*alone, *shared))
    decode_s = _weighted(alone)
    return TokenTimes(
        decode_s=decode_s,
        prompts_s=_weighted([*alone, *shared]) - decode_s,
        late_alone=_late(alone, limit_s) / total if total else 0.0,
        late_with_prompts=_late(shared, limit_s) / total if total else 0.0,
    )


def _late(times: Iterable[tuple[float, int]], limit_s: float | None) -> int:
    return sum(tokens for took_s, tokens in times if limit_s is not None and took_s > limit_s)


def _use(group: ExecutorGroup, fleet: FleetSpec, busy: list[float], steps: list[StepRecord]) -> RoleUse:
    decoding = [step for step in steps if step.features.decodes]
    decode_only = [step for step in decoding if not step.features.prompts]
    mixed = [step for step in decoding if step.features.prompts]
    prompts = [step for step in steps if not step.features.decodes]
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
        prompt_step_s=_weighted((step.duration_s, step.duration_s) for step in prompts),
    )


def _weighted(pairs: Iterable[tuple[float, float]]) -> float:
    known = list(pairs)
    weight = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / weight if weight else 0.0


def _percentile(values: list[float], percent: float) -> float:
    return percentile(sorted(values), percent) if values else 0.0
