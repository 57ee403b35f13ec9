"""Why first tokens of one deployment come late, and those of another do not."""

from __future__ import annotations

from baton.core.sim.study.sides import Side, high_percentile, idle_text
from baton.core.sim.study.texts import counted, milliseconds, percent, time_text
from baton.core.sim.study.uses import RoleUse

SATURATED = 0.85  #: an executor that computes for so much of the time has no time left for a burst
FULL = 0.55  #: of a decode memory, by what sequences hold now: the rest is reserved for their growth or in fragments
STAGES = ("placed", "computed")  #: of `Waits`, until the first token


def why_first_late(loser: Side, winner: Side, bound: str, limit_s: float) -> str | None:
    """None where the stages until the first token take no longer than the limit, or no longer than the winner's."""
    at = high_percentile(loser, bound)
    if first_token_s(loser, at) <= limit_s:
        return None
    stage = max(STAGES, key=lambda name: loser.wait_s(name, at) - winner.wait_s(name, at))
    takes_s = loser.wait_s(stage, at)
    if takes_s <= winner.wait_s(stage, at):
        return None
    if stage == "placed":
        told = f"requests wait {time_text(takes_s)} ({at}) for a place"
    else:
        told = f"a prompt takes {time_text(takes_s)} ({at}) from its placement to its first token"
    cause = _cause(loser, winner, stage)
    return f"{cause}, and {told}" if cause else told


def first_token_s(side: Side, at: str) -> float:
    """From a request's coming."""
    return sum(side.wait_s(stage, at) for stage in STAGES)


def _cause(loser: Side, winner: Side, stage: str) -> str:
    """What of the loser's executors explains that requests wait; empty: nothing that is known of them."""
    decoding = loser.decoding
    if loser.has("prefill") and loser.use("prefill").busy >= SATURATED:
        return _saturated(loser.use("prefill"), decoding)
    if stage == "placed" and decoding.kv_use >= FULL and decoding.kv_use > winner.decoding.kv_use:
        return _full(decoding) + idle_text(loser)
    if not loser.has("prefill") and decoding.mixed_step_s and decoding.busy >= SATURATED:
        shared = f"its replicas compute prompts and decodes in one step of {milliseconds(decoding.mixed_step_s)}"
        return f"{shared}, {percent(decoding.busy)} of the time"
    return ""


def _saturated(prefill: RoleUse, decoding: RoleUse) -> str:
    others = f"decode memory is {percent(min(decoding.kv_use, 1.0))} used"
    if decoding.busy < prefill.busy - 0.1:
        others = f"its {counted(decoding.count, 'decode executor')} compute{_s(decoding)} {percent(decoding.busy)}"
    who = counted(prefill.count, "prefill executor")
    return f"its {who} compute{_s(prefill)} {percent(prefill.busy)} of the time while {others}"


def _full(use: RoleUse) -> str:
    """Tokens that several sequences share count for each of them, so that there may be more than there is room for."""
    who = f"its {counted(use.count, 'executor')} for answers hold{_s(use)} {use.decodes:.0f} sequences at once"
    each, theirs = ("", "its") if use.count == 1 else (" each", "their")
    shared = ", what they share counted for each" if use.kv_use > 1 else ""
    return f"{who}{each}, with {percent(use.kv_use)} of the tokens that {theirs} KV memory has room for{shared}"


def _s(use: RoleUse) -> str:
    return "s" if use.count == 1 else ""
