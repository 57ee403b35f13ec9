"""What an executor tells of the steps that it computed: enough to fit a profile, and nothing of what was asked."""

from __future__ import annotations

import msgspec

from baton.core.sim.step_time.features import Features
from baton.core.sim.step_time.profile import KvGeometry


class ObservedStep(msgspec.Struct, frozen=True, array_like=True):
    """One step that is done. Times are of one monotonic clock."""

    step_id: int
    lane: int
    launched_at: float  #: handed to the compute thread
    done_at: float  #: its result was said
    duration_s: float  #: that the device counted
    tokens: int = 0
    attention: float = 0.0
    prompts: int = 0
    decodes: int = 0
    context: int = 0
    rows: int = 0

    @property
    def features(self) -> Features:
        return Features(self.tokens, self.attention, self.prompts, self.decodes, self.context, self.rows)


class ObservedSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The page `/steps` of an executor."""

    executor: str
    model: str  #: fingerprint
    device: str
    kv: KvGeometry
    kv_tokens: int
    steps: tuple[ObservedStep, ...]  #: the last ones, oldest first
