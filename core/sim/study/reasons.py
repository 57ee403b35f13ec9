"""Why one deployment serves fewer good requests than the other under one load, from the facts of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.measured import Measured
from baton.core.sim.study.texts import counted, milliseconds, percent, time_text
from baton.core.sim.study.uses import RoleUse

BOUNDS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL (p99 of a request)", "e2e_s": "end to end"}
SATURATED = 0.85  #: an executor that computes for so much of the time has no time left for a burst
FULL = 0.55  #: of a decode memory, by what sequences hold now: the rest is reserved for their growth or in fragments
IDLE = 0.6  #: busy for less: it had time for others' work
FEW_TOKENS = 0.02  #: of the tokens: what happens to fewer of them does not explain a 99th percentile


class Side(NamedTuple):
    """One deployment under one load."""

    name: str
    runs: Sequence[Measured]

    def mean(self, value: Callable[[Measured], float]) -> float:
        return sum(map(value, self.runs)) / len(self.runs)

    def kept(self, bound: str) -> float:
        return self.mean(lambda run: run.attainment.get(bound, 0.0))

    def has(self, role: str) -> bool:
        return role in self.runs[0].uses

    def use(self, role: str) -> RoleUse:
        """Means over the runs."""
        first = self.runs[0].uses[role]
        means = {
            name: self.mean(lambda run, name=name: getattr(run.uses[role], name))  # type: ignore[misc]
            for name in RoleUse.__struct_fields__
            if name != "count"
        }
        return RoleUse(count=first.count, **means)

    @property
    def decoding(self) -> RoleUse:
        """Of the executors that decode."""
        return self.use("decode" if self.has("decode") else "unified")


def reason(loser: Side, winner: Side, slo: Slo) -> str:
    """The bound that the loser keeps most rarely beside the winner, and what in its run explains that."""
    bounds = [name for name in Slo.__struct_fields__ if getattr(slo, name) is not None]
    bound = max(bounds, key=lambda name: winner.kept(name) - loser.kept(name))
    limit = getattr(slo, bound)
    text = f"{loser.name} keeps {BOUNDS[bound]} ≤ {time_text(limit)} for {percent(loser.kept(bound))} of the requests"
    text += f" ({winner.name}: {percent(winner.kept(bound))}), as "
    is_first_token = bound == "ttft_s" or (bound == "e2e_s" and _is_late_at_first(loser, winner))
    return text + (_late_first_token(loser, winner) if is_first_token else _slow_tokens(loser, winner, limit, bound))


def _is_late_at_first(loser: Side, winner: Side) -> bool:
    def late(side: Side) -> float:
        return side.mean(lambda run: run.waits.placed_p90_s + run.waits.computed_p90_s)

    def whole(side: Side) -> float:
        return side.mean(lambda run: run.figures.get("e2e_s.p90", 0.0))

    return late(loser) - late(winner) > (whole(loser) - whole(winner)) / 2


def _late_first_token(loser: Side, winner: Side) -> str:
    placed_s = loser.mean(lambda run: run.waits.placed_p90_s)
    waiting = f"requests wait {time_text(placed_s)} (p90) for a place"
    decoding = loser.decoding
    if loser.has("prefill"):
        prefill = loser.use("prefill")
        if prefill.busy >= SATURATED:
            others = f"decode memory is {percent(decoding.kv_use)} used"
            if decoding.busy < prefill.busy - 0.1:
                others = (
                    f"its {counted(decoding.count, 'decode executor')} compute{_s(decoding)} {percent(decoding.busy)}"
                )
            who = counted(prefill.count, "prefill executor")
            return f"its {who} compute{_s(prefill)} {percent(prefill.busy)} of the time while {others}, and {waiting}"
        if decoding.kv_use >= FULL or placed_s > winner.mean(lambda run: run.waits.placed_p90_s):
            return f"{_full(decoding)}, and {waiting}{_idle(loser)}"
    elif decoding.kv_use >= FULL:
        return f"{_full(decoding)}, and {waiting}"
    else:
        shared = f"its replicas compute prompts and decodes in one step of {milliseconds(decoding.mixed_step_s)}"
        return f"{shared}, {percent(decoding.busy)} of the time, and {waiting}"
    computed_s = loser.mean(lambda run: run.waits.computed_p90_s)
    return f"a prompt takes {time_text(computed_s)} (p90) from its placement to its first token"


def _slow_tokens(loser: Side, winner: Side, limit: float, bound: str) -> str:
    decoding, others = loser.decoding, winner.decoding
    if loser.has("decode"):
        handed_over_s = loser.mean(lambda run: run.waits.handed_over_p50_s)
        if bound == "itl_s" and handed_over_s > max(limit, decoding.decode_step_s):
            return f"the hand-off of KV takes {time_text(handed_over_s)} (p50) between an answer's first two tokens"
        on_decode = loser.mean(lambda run: run.waits.prompts_on_decode)
        if on_decode and decoding.mixed_share >= FEW_TOKENS and decoding.decode_step_s <= limit:
            return (
                f"its decode executors compute {percent(on_decode)} of the prompts themselves, and {_shared(decoding)}"
            )
    elif decoding.mixed_share >= FEW_TOKENS:
        return f"prompts share its steps, where {_shared(decoding)}"
    who = counted(decoding.count, "executor")
    text = (
        f"its answers decode on {who}, {decoding.decodes:.0f} at once on each ({winner.name}: {others.decodes:.0f}), "
    )
    steps = f"{milliseconds(decoding.decode_step_s)} ({milliseconds(others.decode_step_s)})"
    return f"{text}so that a step takes {steps}{_idle(loser)}"


def _shared(use: RoleUse) -> str:
    without = f", one without {milliseconds(use.decode_step_s)}" if use.decode_step_s else ""
    return (
        f"a step with a prompt takes {milliseconds(use.mixed_step_s)}{without}, "
        f"and {percent(use.mixed_share)} of the tokens come of such steps"
    )


def _full(use: RoleUse) -> str:
    who = counted(use.count, "executor")
    held = (
        f"hold {percent(use.kv_use)} of the KV memory"
        if use.count != 1
        else f"holds {percent(use.kv_use)} of its KV memory"
    )
    return f"its {who} for answers {held} with {use.decodes:.0f} sequences at once{'' if use.count == 1 else ' each'}"


def _idle(side: Side) -> str:
    """What an unbalanced P/D leaves unused."""
    if not side.has("prefill"):
        return ""
    prefill = side.use("prefill")
    if prefill.busy >= IDLE:
        return ""
    who = counted(prefill.count, "prefill executor")
    return f", while its {who} {'is' if prefill.count == 1 else 'are'} idle {percent(1 - prefill.busy)} of the time"


def _s(use: RoleUse) -> str:
    return "s" if use.count == 1 else ""
