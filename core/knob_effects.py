"""C12: which executor an executor's knob has an effect on, and which fleet others have one in. What is told in vain is
an error, not a silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import fields, replace

from baton.core.config import ExecutorConfig
from baton.core.ids import Role

Condition = tuple[str, Callable[[ExecutorConfig, Role], bool]]

_DECODES: Condition = ("only where decode runs", lambda _, role: role.runs_decode)
_KEEPS_BACK: Condition = ("only with step_mode = alternate", lambda config, _: config.step_mode == "alternate")
_HOLDS: Condition = ("only with a hold", lambda config, _: _holds(config))
_HOLDS_OR_PROTECTS: Condition = (
    "only with a hold or protect_steps",
    lambda config, _: _holds(config) or config.protect_steps > 0,
)
_BY_FILL: Condition = ("only with hold = fill", lambda config, _: config.hold == "fill")
_BY_COST: Condition = ("only with hold = adaptive", lambda config, _: config.hold == "adaptive")
_PROTECTS: Condition = ("only with protect_steps", lambda config, _: config.protect_steps > 0)
_RECEIVES: Condition = ("only on a decode executor", lambda _, role: role is Role.DECODE)
_WRITES: Condition = ("only on a prefill executor", lambda _, role: role is Role.PREFILL)
_MOVES: Condition = ("only on a prefill or decode executor", lambda _, role: role is not Role.UNIFIED)
_JOINS_SLOWLY: Condition = ("only with join_max_steps", lambda config, _: config.join_max_steps > 0)

#: by knob, what it needs; the first that is missing is told
NEEDS: dict[str, tuple[Condition, ...]] = {
    "share_steps": (_WRITES,),
    "growth_reserve": (_DECODES,),
    "step_mode": (_DECODES,),
    "hold": (_DECODES, _KEEPS_BACK),
    "hold_fill": (_DECODES, _KEEPS_BACK, _BY_FILL),
    "hold_max_ms": (_DECODES, _KEEPS_BACK, _HOLDS_OR_PROTECTS),
    "hold_stall_ms": (_DECODES, _KEEPS_BACK, _HOLDS),
    "hold_partial_ms": (_DECODES, _KEEPS_BACK, _HOLDS_OR_PROTECTS),
    "hold_kv_high": (_DECODES, _KEEPS_BACK, _HOLDS_OR_PROTECTS),
    "hold_batch_low": (_DECODES, _KEEPS_BACK, _HOLDS_OR_PROTECTS),
    "itl_target_ms": (_DECODES, _KEEPS_BACK, _BY_COST),
    "protect": (_DECODES, _KEEPS_BACK, _PROTECTS),
    "protect_steps": (_DECODES, _KEEPS_BACK),
    "join_share": (_RECEIVES, _JOINS_SLOWLY),
    "join_max_steps": (_RECEIVES,),
    "join_max_ms": (_RECEIVES, _JOINS_SLOWLY),
    "piece_bytes": (_WRITES,),
    "window": (_WRITES,),
    "window_bytes": (_MOVES,),
    "total_window_bytes": (_WRITES,),
    "handoff_lead_steps": (_WRITES,),
    "parked_tokens": (_WRITES,),
    "share_wait_s": (_RECEIVES,),
    "quarantine_blocks": (_RECEIVES,),
}


#: of the scheduler: how decode executors are filled that receive KV, and whether they compute prompts themselves
_OF_DECODE = ("handoff_slack", "local_prompt_tokens", "strict_pd")
_EXECUTORS = {role.name.lower(): role for role in Role if role.is_executor}


def lacking(section: str, knob: str, counts: Mapping[Role, int]) -> str:
    """What a fleet with so many executors of each role lacks for a knob to have an effect, told in the section of a
    role or of the scheduler; empty if nothing."""
    needed = Role.DECODE if section == "scheduler" and knob in _OF_DECODE else _EXECUTORS.get(section)
    if needed is None or counts.get(needed):
        return ""
    return f"there is no {needed.name.lower()} executor"


def in_vain(config: ExecutorConfig, role: Role) -> tuple[str, str]:
    """The first knob that would have no effect on such an executor, and what it lacks; empty if there is none. A
    default is not told."""
    for field in fields(config):
        if getattr(config, field.name) == field.default:
            continue
        for why, holds in NEEDS.get(field.name, ()):
            if not holds(config, role):
                return field.name, why
    return "", ""


def without_effect(config: ExecutorConfig, role: Role) -> str:
    """What is said of the first knob that would have none on such an executor; empty if there is no such knob."""
    knob, why = in_vain(config, role)
    return f"{knob} = {getattr(config, knob)} has no effect: {why}" if knob else ""


def contradiction(config: ExecutorConfig, role: Role) -> str:
    """Why such an executor cannot have these knobs; empty if it can. Each for itself is valid."""
    if role.runs_decode and config.num_slots > config.token_budget:
        return f"num_slots = {config.num_slots}: at most token_budget = {config.token_budget}"
    return without_effect(config, role)


def with_effect(config: ExecutorConfig, role: Role) -> ExecutorConfig:
    """The same knobs, but for those without effect on such an executor, which have their defaults."""
    plain = ExecutorConfig()
    while knob := in_vain(config, role)[0]:
        config = replace(config, **{knob: getattr(plain, knob)})
    return config


def _holds(config: ExecutorConfig) -> bool:
    """Whether prompts may be kept back for company: a fill of 0 is reached by any of them."""
    return config.hold == "adaptive" or (config.hold == "fill" and config.hold_fill > 0)
