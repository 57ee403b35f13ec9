"""A device that fails, blocks or stays pending where a test wants it to."""

from __future__ import annotations

import threading
from typing import Any

from baton.core.executor.steps import StepPlan, StepResult
from baton.services.executor.engine.devices.base import CompletionState, DeviceBroken
from baton.services.executor.engine.devices.fake import FakeDevice


class FaultyDevice(FakeDevice):
    """`failing` maps a stage to how many of its next calls raise."""

    def __init__(self) -> None:
        super().__init__(16, 4)
        self.failing: dict[str, int] = {}
        self.is_pending = False  #: completions are pending until `finish`
        self.may_launch = threading.Event()
        self.may_launch.set()
        self.in_launch = threading.Event()
        self.is_finished = threading.Event()
        self.calls: list[str] = []
        self.is_closed = False

    def _enter(self, stage: str) -> None:
        self.calls.append(stage)
        if self.failing.get(stage, 0) > 0:
            self.failing[stage] -= 1
            raise DeviceBroken(f"{stage} failed") from OSError("the driver said so")

    def launch(self, plan: StepPlan) -> None:
        self.in_launch.set()
        self.may_launch.wait()
        self._enter("launch")
        super().launch(plan)

    def create_completion(self) -> Any:
        self._enter("create")
        return super().create_completion()

    def record(self, completion: Any) -> None:
        self._enter("record")
        super().record(completion)

    def query(self, completion: Any) -> CompletionState:
        self._enter("query")
        return CompletionState.PENDING if self.is_pending else super().query(completion)

    def wait(self, completion: Any) -> None:
        if self.is_pending:
            self.is_finished.wait()
        self._enter("wait")
        super().wait(completion)

    def collect(self, step_id: int) -> StepResult:
        self._enter("collect")
        return super().collect(step_id)

    def close(self) -> None:
        self.is_closed = True
