"""The figures of one step that decide how long it takes."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Literal, NamedTuple

from baton.core.executor.steps import StepItem


class StepKind(enum.StrEnum):
    """What a step computes. Each kind has a model of its own: one formula for all is 16–20 % off."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"


Feature = Literal["one", "tokens", "attention", "prompts", "decodes", "context", "rows"]


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
    def kind(self) -> StepKind:
        if not self.prompts:
            return StepKind.DECODE
        return StepKind.MIXED if self.decodes else StepKind.PREFILL


def features_of(items: Iterable[StepItem], num_decodes: int) -> Features:
    """Of a plan's items, the first `num_decodes` of which decode."""
    tokens = prompts = decodes = context = rows = 0
    attention = 0.0
    for item in items:
        rows += item.num_samples
        if decodes < num_decodes:
            decodes += 1
            context += item.start + 1
        else:
            prompts += 1
            tokens += item.num_tokens
            attention += item.num_tokens * (item.start + item.num_tokens / 2)
    return Features(tokens, attention, prompts, decodes, context, rows)
