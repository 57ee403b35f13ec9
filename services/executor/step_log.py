"""What the last steps were and how long they took, in figures: for the page `/steps` and `baton profile`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from baton.core.executor import events as ev
from baton.core.layout import KvLayout
from baton.core.sim.step_time.features import Features, features_of
from baton.core.sim.step_time.observed import ObservedStep, ObservedSteps
from baton.core.sim.step_time.profile import KvGeometry

NUM_STEPS = 8192  #: that are remembered; about 2 MB
MAX_OPEN = 64  #: launched steps whose end is still to come; the machine allows far fewer


class StepLog:
    """`launched` is called by the loop, `said` by whichever thread says a step's end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, num_steps: int = NUM_STEPS) -> None:
        self._clock = clock
        self._open: dict[int, tuple[Features, int, float]] = {}  #: by step: features, lane, when
        self._done: deque[ObservedStep] = deque(maxlen=num_steps)

    def launched(self, command: ev.Launch) -> None:
        """A step is handed to its compute thread."""
        plan = command.plan
        self._open[plan.step_id] = (features_of(plan), plan.lane, self._clock())
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    def said(self, event: ev.ThreadEvent) -> None:
        """A thread says something; ends of steps are noted."""
        if not isinstance(event, ev.StepDone):
            return
        result = event.result
        known = self._open.pop(result.step_id, None)
        if known is not None:
            features, lane, launched_at = known
            done = ObservedStep(
                result.step_id, lane, launched_at, self._clock(), result.duration_s,
                features.tokens, features.attention, features.prompts, features.decodes, features.context,
                features.rows,
            )  # fmt: skip
            self._done.append(done)

    def page(self, executor: str, device: str, layout: KvLayout, num_blocks: int, after: int = 0) -> ObservedSteps:
        """The steps after that one, as far as they are remembered."""
        return ObservedSteps(
            executor=executor,
            model=layout.model_fingerprint,
            device=device,
            kv=KvGeometry(
                num_kv_layers=layout.num_kv_layers,
                num_kv_heads=layout.num_kv_heads,
                head_dim=layout.head_dim,
                dtype=layout.dtype,
            ),
            kv_tokens=num_blocks * layout.block_size,
            steps=tuple(step for step in tuple(self._done) if step.step_id > after),
        )
