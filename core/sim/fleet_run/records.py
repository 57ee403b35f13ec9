"""What a performance run keeps besides the facts of its requests: each step, and each request's way."""

from __future__ import annotations

from typing import NamedTuple

from baton.core.sim.step_time.features import Features, StepKind


class StepRecord(NamedTuple):
    """One step of one executor. Seconds since the run began."""

    executor: str
    began_s: float
    duration_s: float
    features: Features
    lane: int = 0

    @property
    def kind(self) -> StepKind:
        return self.features.kind


class PieceRecord(NamedTuple):
    """Some pieces of KV that were posted together and landed together."""

    source: str
    destination: str
    posted_s: float
    landed_s: float
    num_bytes: int


class NoteRecord(NamedTuple):
    """What a machine told of a request or a peer."""

    time_s: float
    process: str
    what: str
    request_id: int
    attempt: int
    reason: str
    numbers: dict[str, float]
