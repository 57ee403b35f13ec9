"""A unified executor whose loop waits for submissions alone when nothing decodes: prompts in flight are forgotten.

A prompt that was launched beside decode steps is looked for between two of those. When the last sequence retires before
it is computed, the loop blocks on what others send, and notices it with whatever is submitted next. Where it is `fixed`
it waits for the prompt's completion, too, as the fix of this fault does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from baton.core.executor.events import Launch, StepDone
from baton.core.executor.machine import ExecutorCore
from baton.core.executor.steps import MAIN_LANE
from baton.core.session.node import FrameArrived
from baton.core.sim.fleet_run.parts import Parts
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.wire.frames import Data, decode_frame


class ParkingLoop(LoopProcess):
    """See the module. Heartbeats are no submissions."""

    def __init__(self, is_fixed: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_fixed = is_fixed
        self._beside: set[int] = set()  #: steps of prompts that were launched while something decoded
        self._unnoticed: list[Any] = []

    def perform(self, commands: Sequence[Any]) -> None:
        for command in commands:
            if isinstance(command, Launch) and command.plan.lane != MAIN_LANE and self._decodes():
                self._beside.add(command.plan.step_id)
        super().perform(commands)

    def report(self, event: Any) -> None:
        is_beside = isinstance(event, StepDone) and event.result.step_id in self._beside
        if is_beside and not self._decodes() and not self._is_fixed:
            self._unnoticed.append(event)
        else:
            super().report(event)

    def hand(self, event: Any) -> None:
        super().hand(event)
        if self._unnoticed and isinstance(event, FrameArrived) and isinstance(decode_frame(event.data), Data):
            waiting, self._unnoticed = self._unnoticed, []
            for unnoticed in waiting:
                super().report(unnoticed)

    def _decodes(self) -> bool:
        machine = self.node.machine
        return isinstance(machine, ExecutorCore) and bool(machine.state.running)


def make(fixed: bool = False) -> Parts:
    return Parts(process=partial(ParkingLoop, str(fixed).lower() == "true"))
