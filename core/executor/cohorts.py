"""Decode steps by padded batch: how many, how long, how many sequences, how many of them new (W15).

Every sequence of a decode step gets one token, so seconds divided by steps is the time per output token of that cohort.
Step times are worth comparing at an equal padded batch only, and never between steps with and without prompt chunks.
"""

from __future__ import annotations

from typing import NamedTuple

from baton.core.executor.state import LaunchedStep
from baton.core.executor.steps import StepResult


class CohortKey(NamedTuple):
    """What makes two decode steps comparable."""

    padded_batch: int  #: rows that the device computed for decode
    is_mixed: bool  #: prompt chunks were computed in the same step


class Cohort:
    """Sums over the decode steps of one key."""

    __slots__ = ("duration_s", "num_activated", "num_sequences", "num_steps")

    def __init__(self) -> None:
        self.num_steps = 0
        self.num_sequences = 0  #: decoded, summed over steps
        self.num_activated = 0  #: of these, in their first decode step
        self.duration_s = 0.0


class Cohorts:
    """All cohorts of one executor's life; as many as there are batches."""

    def __init__(self) -> None:
        self.by_key: dict[CohortKey, Cohort] = {}

    def record(self, step: LaunchedStep, result: StepResult) -> None:
        """Count a step that is done; one without decodes is none of these."""
        batch = step.num_decodes
        if not batch:
            return
        key = (max(batch, result.padded_batch), bool(step.prompts))
        cohort = self.by_key.get(key)  # type: ignore[call-overload]  # equal to the named one, and made sooner
        if cohort is None:
            cohort = self.by_key[CohortKey(*key)] = Cohort()
        cohort.num_steps += 1
        cohort.num_sequences += batch
        cohort.num_activated += step.num_activated
        cohort.duration_s += result.duration_s
