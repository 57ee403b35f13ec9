"""All compute threads of one device: a thread for each lane of steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from baton.core.executor.events import StepDone, StepFailed
from baton.core.executor.steps import StepPlan
from baton.services.executor.compute_thread import NICENESS, ComputeThread, story
from baton.services.executor.engine.devices.base import Device

STOP_TIMEOUT_S = 30.0


class ComputeLanes:
    """Plans in by `submit`, each to the thread of its lane; events out by `post_event`, in order for each lane.

    `on_crash` gets what ended a thread unexpectedly: then nothing is proven.
    Lifecycle: `start`, `submit` …, `stop`, and `close` once that has proven all.
    """

    def __init__(
        self,
        device: Device[Any],
        num_lanes: int,
        post_event: Callable[[StepDone | StepFailed], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._device = device
        self.threads = [
            ComputeThread(device, post_event, on_crash, lane, niceness=NICENESS) for lane in range(num_lanes)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return all(thread.is_alive for thread in self.threads)

    @property
    def num_launched(self) -> int:
        """Steps given to the device."""
        return sum(thread.num_launched for thread in self.threads)

    @property
    def num_proven(self) -> int:
        """Of them, those proven to have ended."""
        return sum(thread.num_proven for thread in self.threads)

    @property
    def num_unproven(self) -> int:
        """Steps that the device may still be working on."""
        return self.num_launched - self.num_proven

    def submit(self, plan: StepPlan) -> None:
        """Hand a plan over and return at once."""
        self.threads[plan.lane].submit(plan)

    def stop(self) -> bool:
        """Wait for what was launched and report it. Whether all of it was proven to have ended."""
        for thread in self.threads:
            thread.ask_to_stop()
        until = time.monotonic() + STOP_TIMEOUT_S
        proven = [thread.join(max(0.0, until - time.monotonic())) for thread in self.threads]
        return all(proven)

    def close(self) -> str:
        """Close the device. What went wrong with that, for the log; nothing can be touched any more, so it ends nothing
        (O6)."""
        try:
            self._device.close()
        except Exception as error:  # whatever a driver may raise
            return story(error)
        return ""
