"""The figures of one step that decide how long it takes."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple

from baton.core.executor.steps import StepPlan


class StepKind(enum.StrEnum):
    """What a step computes. Each kind has a model of its own: one formula for all is 16–20 % off."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"


Feature = Literal["one", "tokens", "attention", "prompts", "decodes", "context", "rows", "positions"]


class Features(NamedTuple):
    """Of one step. `one` is 1: the term of a constant."""

    tokens: int = 0  #: prompt tokens that it computes
    attention: float = 0.0  #: sum over its prompt chunks of chunk · (computed before + chunk / 2)
    prompts: int = 0  #: prompt chunks
    decodes: int = 0  #: sequences that decode one token
    context: int = 0  #: sum of the positions that these read
    rows: int = 0  #: positions that are sampled
    one: int = 1

    @property
    def positions(self) -> int:
        """Rows of its matrix products: prompt tokens and decodes together."""
        return self.tokens + self.decodes

    @property
    def kind(self) -> StepKind:
        if not self.prompts:
            return StepKind.DECODE
        return StepKind.MIXED if self.decodes else StepKind.PREFILL


def features_of(plan: StepPlan) -> Features:
    """Of a step as it was planned."""
    prompts, num_decodes = plan.items, len(plan.decodes)
    return Features(
        tokens=sum([item.num_tokens for item in prompts]),
        attention=sum([item.num_tokens * (item.start + item.num_tokens / 2) for item in prompts]),
        prompts=len(prompts),
        decodes=num_decodes,
        context=plan.num_context,
        rows=num_decodes + sum([item.num_samples for item in prompts]),
    )
