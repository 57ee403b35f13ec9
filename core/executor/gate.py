"""`next_step`: what the next step computes where steps alternate, by one decision on the prompts that wait (C1, C12).

    fire     the step is of prompts: a must-fire bound holds (C8), or nothing keeps them back
    protect  decode steps come first: too few ran since the last step of prompts (C9)
    hold     more prompts are waited for, so that they share a step (C8, C15)

Bounds are O(1) reads and come first, always. A plan of prompts is built when it may be launched, or once for each
change of the demand while they are held; what it has shown stands until then, so a turn on hold costs nothing (C4). A
plan without items is no fire (C17), and a bound counts only if the plan admits whose bound it is: an overdue prompt
that cannot be admitted switches the policy off for nobody else. Whatever is kept back says until when (C28).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Span
from baton.core.executor import adaptive, joining, walk
from baton.core.executor.gate_state import ITL_MEMORY, Gate, Kept, Look
from baton.core.executor.state import ExecutorState, LaunchedStep
from baton.core.executor.steps import MAIN_LANE, StepResult
from baton.core.executor.walk import Draft

NEVER = float("inf")


class Fire(enum.Enum):
    """Why a step is of prompts. The first five are must-fire bounds: protection ends with them too."""

    NO_DECODE = "no_decode"  #: no sequence decodes, or none can
    BATCH_LOW = "batch_low"  #: few sequences decode
    KV_HIGH = "kv_high"  #: little KV memory is free while prompts of which a part is computed hold some of it
    PARTIAL = "partial"  #: the rest of a prompt was kept back as long as it may be
    AGE = "age"  #: a prompt has waited as long as it may
    FILL = "fill"  #: enough tokens are together
    LAST_TOKEN = "last_token"  #: a prompt has nothing but its last token to compute (C21)
    STALL = "stall"  #: no further prompt has come for so long
    NO_GAIN = "no_gain"  #: nothing is gained by waiting for company


class Decision(NamedTuple):
    """`draft`: a plan of prompts, if one was built in this turn."""

    fire: Fire | None
    kept: Kept | None
    draft: Draft | None


NOTHING = Decision(None, None, None)  #: no prompt waits that could be computed


def next_step(state: ExecutorState, lane: int = MAIN_LANE) -> Draft:
    """The lane's next step. What it counts is counted for a step that the caller launches in the same turn."""
    if state.overlaps:
        return walk.plan_decodes(state) if lane == MAIN_LANE else walk.plan_prompts(state)
    if not state.gate.is_alternate:
        return walk.plan_step(state) if state.running or len(state.queue) else Draft(0)
    decision = _decide(state) if walk.has_demand(state) else NOTHING
    fire, draft = decision.fire, decision.draft
    if fire is None:
        decodes = walk.plan_decodes(state)
        if decodes or decision.kept is None:
            _keep(state, decision.kept)
            return decodes
        fire, draft = Fire.NO_DECODE, draft or _plan(state)
    if draft is None:
        raise InvariantViolated(f"{fire} without a plan")
    _keep(state, None, fire.value)
    state.counters[f"fires_{fire.value}"] += 1
    state.counters["prefill_tokens_planned"] += draft.num_tokens
    return draft


def _decide(state: ExecutorState) -> Decision:
    """The one decision about the prompts that wait."""
    gate = state.gate
    bound = _bound(state)
    if bound is None:
        if gate.protect_left > 0:
            return _protect(state, None)
        if gate.standing is not None and state.now < _hold_end(state, gate.standing)[0]:
            return _hold(state, gate.standing, None)
    draft = _plan(state)
    look = gate.look = _look(state, draft)
    bound = _bound(state)
    if bound is not None:
        return Decision(bound, None, draft)
    if gate.protect_left > 0:
        return _protect(state, draft)
    ends, fire = _hold_end(state, look)
    return Decision(fire, None, draft) if state.now >= ends else _hold(state, look, draft)


def _plan(state: ExecutorState) -> Draft:
    state.counters["walks"] += 1
    draft = walk.plan_prompts(state)
    if not draft.items:
        raise InvariantViolated("there is demand, and no plan for it")
    return draft


def _hold(state: ExecutorState, look: Look, draft: Draft | None) -> Decision:
    until = min(_hold_end(state, look)[0], look.age_at, look.partial_at)
    return Decision(None, _kept(state, Reason.HELD, until), draft)


def _protect(state: ExecutorState, draft: Draft | None) -> Decision:
    return Decision(None, _kept(state, Reason.PROTECTED, _first_bound(state)), draft)


def _bound(state: ExecutorState) -> Fire | None:
    """A must-fire bound that holds. If a plan was built since demand changed, only what it admits counts (C17); until
    then any prompt's bound is a reason to build one."""
    gate, config = state.gate, state.config
    if not state.running:
        return Fire.NO_DECODE
    if len(state.running) < config.hold_batch_low:
        return Fire.BATCH_LOW
    look = gate.standing
    if gate.partials:
        pool = state.memory.pool
        is_high = pool.num_blocks - pool.num_free > config.hold_kv_high * pool.num_blocks
        if is_high and (look is None or look.has_partial):
            return Fire.KV_HIGH
        partial_at = gate.oldest_partial + config.hold_partial_ms / 1e3 if look is None else look.partial_at
        if partial_at <= state.now:
            return Fire.PARTIAL
    age_at = gate.oldest + config.hold_max_ms / 1e3 if look is None else look.age_at
    return Fire.AGE if age_at <= state.now else None


def _look(state: ExecutorState, draft: Draft) -> Look:
    gate, config = state.gate, state.config
    age_at = partial_at = NEVER
    has_last_token = False
    rests_since = -NEVER
    for item in draft.items:
        seq_id = item.sequence.seq_id
        rests_since = max(rests_since, gate.partials.get(seq_id, NEVER))
        age_at = min(age_at, gate.arrivals[seq_id] + config.hold_max_ms / 1e3)
        if seq_id in gate.partials:
            partial_at = min(partial_at, gate.partials[seq_id] + config.hold_partial_ms / 1e3)
        has_last_token = has_last_token or (item.num_tokens == 1 and item.num_samples > 0)
    return Look(gate.version, draft.num_tokens, len(draft.items), age_at, partial_at, has_last_token, rests_since)


def _hold_end(state: ExecutorState, look: Look) -> tuple[float, Fire]:
    """When the hold of these prompts ends if nothing else changes, and why; in the past: it has ended."""
    gate, config = state.gate, state.config
    if look.has_last_token:
        return -NEVER, Fire.LAST_TOKEN
    is_fixed = config.hold == "fill"
    target = config.hold_fill if is_fixed else 1.0
    if config.hold == "off" or look.num_tokens >= target * config.token_budget:
        return -NEVER, Fire.FILL
    allowed_s = config.hold_stall_ms / 1e3
    if not is_fixed:
        patience_s = _patience_s(state, look)
        if patience_s <= gate.gap_s:
            return -NEVER, Fire.NO_GAIN
        if look.has_only_rests:
            return max(gate.grew_at, look.rests_since) + patience_s, Fire.STALL
        allowed_s = min(allowed_s, patience_s)
    return gate.grew_at + allowed_s, Fire.STALL


def _patience_s(state: ExecutorState, look: Look) -> float:
    pace, target_s = state.pace, state.config.itl_target_ms / 1e3
    if 0 < state.gate.itl_s <= target_s:
        return 0.0
    price = adaptive.REST_PRICE if look.has_only_rests else adaptive.PRICE
    return adaptive.patience_s(
        pace.prompt_fixed_s, pace.prompt_token_s, look.num_tokens, look.num_prompts, len(state.running), price
    )


def _first_bound(state: ExecutorState) -> float:
    """When the first bound in time ends a protection; 0: none will, decode steps do."""
    gate, config, look = state.gate, state.config, state.gate.standing
    if look is not None:
        first = min(look.age_at, look.partial_at)
    else:
        first = gate.oldest + config.hold_max_ms / 1e3
        if gate.partials:
            first = min(first, gate.oldest_partial + config.hold_partial_ms / 1e3)
    return first if first < NEVER else 0.0


def span_of(kept: Kept, now: float, ended_by: str = "") -> Span:
    """Empty `ended_by`: it goes on."""
    what = "hold" if kept.reason is Reason.HELD else "protection"
    return Span(what, kept.since, now, kept.reason, kept.until, ended_by)


def _kept(state: ExecutorState, reason: Reason, until: float) -> Kept:
    before = state.gate.kept
    since = before.since if before is not None and before.reason is reason else state.now
    return Kept(reason, since, until)


def _keep(state: ExecutorState, kept: Kept | None, ended_by: str = "no_demand") -> None:
    """Count what is kept back for the step that comes now, and tell of what was kept back until now: `ended_by` is why
    it is not any more."""
    before = state.gate.kept
    if before is not None and (kept is None or kept.reason is not before.reason):
        ended_by = ended_by if kept is None else kept.reason.name.lower()
        state.out.append(span_of(before, state.now, ended_by))
    state.gate.kept = kept
    if kept is not None:
        state.counters[f"wait_{kept.reason.name.lower()}"] += 1


# ---- what steps change


def note_launch(state: ExecutorState, step: LaunchedStep) -> None:
    """A step was committed. One with prompts begins a protection."""
    joining.note_launch(state, step.num_decodes)
    if step.prompts:
        gate = state.gate
        gate.last_prompts = step.plan.step_id
        gate.protect_left = _protection(state) if gate.is_alternate else 0


def _protection(state: ExecutorState) -> int:
    """Decode steps that are to run before the next step of prompts."""
    is_off = state.config.protect == "adaptive" and state.pace.prompt_fixed_share < adaptive.MIN_SHARE
    return 0 if is_off else state.config.protect_steps


def note_done(state: ExecutorState, step: LaunchedStep, result: StepResult) -> None:
    """A step ran (C9, C27): what it held by the device's own count, and what that means for the next prompts."""
    gate, counters = state.gate, state.counters
    if step.num_decodes and step.plan.step_id > gate.last_prompts:
        gate.protect_left = max(0, gate.protect_left - 1)
    num_prompts = len(step.prompts)
    if num_prompts:
        counters["prefill_steps"] += 1
        counters["prefill_steps_shared"] += num_prompts > 1
        counters["prefill_requests"] += num_prompts
        counters["prefill_tokens"] += sum([done.num_computed for done in result.items])
        counters["decode_steps_between"] += gate.num_decode_steps
        gate.num_decode_steps = 0
    else:
        gate.num_decode_steps += 1
    if step.num_decodes:
        _measure_itl(gate, state.now, bool(state.running))


def _measure_itl(gate: Gate, now: float, goes_on: bool) -> None:
    if gate.decoded_at is not None:
        took = now - gate.decoded_at
        gate.itl_s = took if gate.itl_s == 0 else gate.itl_s + ITL_MEMORY * (took - gate.itl_s)
    gate.decoded_at = now if goes_on else None
