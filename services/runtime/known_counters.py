"""Counters that `/metrics` shows at 0 before their first event: who looks for one finds it, and a rate sees that event.

Machines count by name as things happen. Which names of waits, steps and choices a role can come to is said here.
"""

from __future__ import annotations

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.executor.gate import Fire
from baton.core.ids import Role

_EXECUTOR = (
    "refused_after_placement", "steps_launched", "steps_done", "walk_token_budget",
    "prefill_steps", "prefill_steps_shared", "prefill_requests", "prefill_tokens", "decode_steps_between",
)  # fmt: skip
_DECODES = ("preempted", "wait_kv_exhausted")
_WRITES = ("walk_parked", "wait_transfer_window", "transfers_failed", "kv_bytes_posted", "kv_bytes_posted_early")
_RECEIVES = (
    "quarantined_transfers", "share_waits", "share_waits_expired", "blocks_returned_shared", "kv_bytes_not_sent",
)  # fmt: skip
_KEEPS_BACK = (
    "walks", "wait_held", "wait_protected", "prefill_tokens_planned", *(f"fires_{fire.value}" for fire in Fire),
)  # fmt: skip
_SCHEDULER = ("wait_no_slot", "wait_kv_exhausted", "wait_no_executor", "wait_token_budget")
_PREFIX_WAIT = (
    "wait_prefix_wait", "prefix_waits_begun", "prefix_waits_served", "prefix_waits_lost", "prefix_waits_given_up",
    "prefix_wait_refused_slow", "prefix_wait_refused_stale", "prefix_wait_refused_spent", "prefix_wait_tokens_saved",
)  # fmt: skip


def known_counters(role: Role, knobs: ExecutorConfig | SchedulerConfig | RouterConfig) -> dict[str, float]:
    """By name as `Metrics` takes it: 0 for each."""
    names: list[str] = []
    if isinstance(knobs, ExecutorConfig):
        names = _of_executor(role, knobs)
    elif isinstance(knobs, RouterConfig):
        names = ["accepted", "ended_ok"]
    elif role is Role.SCHEDULER:
        names = [*_SCHEDULER, *(_PREFIX_WAIT if knobs.prefix_wait else ())]
    return {f"{name}_total": 0.0 for name in names}


def _of_executor(role: Role, knobs: ExecutorConfig) -> list[str]:
    names = list(_EXECUTOR)
    kinds = ["prefill", *(["decode"] if role.runs_decode else [])]
    if role.runs_decode:
        names += _DECODES
        if knobs.step_mode == "mixed":
            kinds.append("mixed")
        if knobs.step_mode == "alternate":
            names += _KEEPS_BACK
    if role is Role.PREFILL:
        names += [*_WRITES, *(["walk_unshared"] if knobs.share_steps == "adaptive" else [])]
    if role is Role.DECODE:
        names += _RECEIVES
    return names + [f"{kind}_steps_{what}" for kind in kinds for what in ("launched", "done")]
