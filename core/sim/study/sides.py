"""One of two deployments under one load, as means over its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from baton.core.sim.study.measured import Measured
from baton.core.sim.study.texts import counted, percent
from baton.core.sim.study.uses import RoleUse, TokenTimes

IDLE = 0.6  #: busy for less: it had time for others' work


class Side(NamedTuple):
    """One deployment under one load."""

    name: str
    runs: Sequence[Measured]

    def mean(self, value: Callable[[Measured], float]) -> float:
        return sum(map(value, self.runs)) / len(self.runs)

    def kept(self, bound: str) -> float:
        return self.mean(lambda run: run.attainment.get(bound, 0.0))

    def wait_s(self, stage: str, at: str) -> float:
        """A percentile of a stage of `Waits`."""
        return self.mean(lambda run: getattr(run.waits, f"{stage}_{at}_s"))

    def figure(self, name: str) -> float | None:
        """None where a run does not have it."""
        if any(name not in run.figures for run in self.runs):
            return None
        return self.mean(lambda run: run.figures[name])

    @property
    def tokens_per_answer(self) -> float | None:
        tokens, requests = self.figure("output_tokens_per_s"), self.figure("requests_per_s")
        return tokens / requests if tokens and requests else None

    def has(self, role: str) -> bool:
        return role in self.runs[0].uses

    def use(self, role: str) -> RoleUse:
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

    @property
    def tokens(self) -> TokenTimes:
        means = {
            name: self.mean(lambda run, name=name: getattr(run.tokens, name))  # type: ignore[misc]
            for name in TokenTimes.__struct_fields__
        }
        return TokenTimes(**means)


def high_percentile(side: Side, bound: str) -> str:
    """The one that tells of those requests that do not keep a bound: what is true of a tenth of them says nothing where
    fewer break it."""
    return "p90" if side.kept(bound) < 0.9 else "p99"


def idle_text(side: Side) -> str:
    """What an unbalanced P/D leaves unused."""
    if not side.has("prefill"):
        return ""
    prefill = side.use("prefill")
    if prefill.busy >= IDLE:
        return ""
    who = counted(prefill.count, "prefill executor")
    return f", while its {who} {'is' if prefill.count == 1 else 'are'} idle {percent(1 - prefill.busy)} of the time"
