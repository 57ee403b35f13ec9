"""Why one deployment serves fewer good requests than the other under one load, from the facts of their runs.

A reason is said only where its figures are worse than the other's and as large as the bound that is broken: what does
not explain that bound is no reason for it.
"""

from __future__ import annotations

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.late_first_tokens import why_first_late
from baton.core.sim.study.sides import Side
from baton.core.sim.study.slow_tokens import why_answers_slow, why_tokens_late
from baton.core.sim.study.texts import percent, time_text

BOUNDS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL (p99 of a request)", "e2e_s": "end to end"}
UNKNOWN = "the facts of the runs name no reason for that"


def reason(loser: Side, winner: Side, slo: Slo) -> str:
    """The bound that the loser keeps most rarely beside the winner, and what in its run explains that."""
    bounds = [name for name in Slo.__struct_fields__ if getattr(slo, name) is not None]
    bound = max(bounds, key=lambda name: winner.kept(name) - loser.kept(name))
    limit = getattr(slo, bound)
    text = f"{loser.name} keeps {BOUNDS[bound]} ≤ {time_text(limit)} for {percent(loser.kept(bound))} of the requests"
    text += f" ({winner.name}: {percent(winner.kept(bound))})"
    why = _why(loser, winner, bound, limit) if loser.kept(bound) < winner.kept(bound) else None
    return f"{text}; {UNKNOWN}" if why is None else f"{text}, as {why}"


def _why(loser: Side, winner: Side, bound: str, limit_s: float) -> str | None:
    if bound == "ttft_s":
        return why_first_late(loser, winner, bound, limit_s)
    if bound == "itl_s":
        return why_tokens_late(loser, winner, limit_s)
    return why_answers_slow(loser, winner, bound, limit_s)
