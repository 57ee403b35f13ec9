"""A device that fails, blocks or stays pending where a test wants it to."""

from __future__ import annotations

import threading
from typing import Any

from baton.core.executor.steps import MAIN_LANE, StepPlan, StepResult
from baton.services.executor.engine.devices.base import CompletionState, DeviceBroken
from baton.services.executor.engine.devices.fake import FakeDevice
from baton.services.executor.engine.devices.host import HostCompletion


class _Completion(HostCompletion):
    __slots__ = ("lane",)

    def __init__(self, lane: int) -> None:
        super().__init__()
        self.lane = lane


class FaultyDevice(FakeDevice):
    """`failing` maps a stage to how many of its next calls raise. All that is wrong is so in `lane` alone."""

    def __init__(self, lane: int = MAIN_LANE) -> None:
        super().__init__(16, 4)
        self.lane = lane
        self._lane_of: dict[int, int] = {}  #: by step_id
        self.failing: dict[str, int] = {}
        self.is_pending = False  #: completions are pending until `finish`
        self.may_launch = threading.Event()
        self.may_launch.set()
        self.in_launch = threading.Event()
        self.is_finished = threading.Event()
        self.calls: list[str] = []  #: of that lane
        self.is_closed = False

    def _enter(self, stage: str) -> None:
        self.calls.append(stage)
        if self.failing.get(stage, 0) > 0:
            self.failing[stage] -= 1
            raise DeviceBroken(f"{stage} failed") from OSError("the driver said so")

    def launch(self, plan: StepPlan) -> None:
        self._lane_of[plan.step_id] = plan.lane
        if plan.lane != self.lane:
            super().launch(plan)
            return
        self.in_launch.set()
        self.may_launch.wait()
        self._enter("launch")
        super().launch(plan)

    def create_completion(self, lane: int) -> Any:
        if lane == self.lane:
            self._enter("create")
        return _Completion(lane)

    def record(self, completion: Any) -> None:
        if completion.lane == self.lane:
            self._enter("record")
        super().record(completion)

    def query(self, completion: Any) -> CompletionState:
        if completion.lane == self.lane:
            self._enter("query")
            if self.is_pending:
                return CompletionState.PENDING
        return super().query(completion)

    def wait(self, completion: Any) -> None:
        if completion.lane == self.lane:
            if self.is_pending:
                self.is_finished.wait()
            self._enter("wait")
        super().wait(completion)

    def collect(self, step_id: int) -> StepResult:
        if self._lane_of[step_id] == self.lane:
            self._enter("collect")
        return super().collect(step_id)

    def close(self) -> None:
        self.is_closed = True
        self._enter("close")
