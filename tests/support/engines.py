"""Executors' machines with real devices behind them: their steps are computed, their pieces copied between memories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from baton.core.executor import events as ev
from baton.core.executor.steps import StepPlan
from baton.core.ids import Role
from baton.services.executor.engine.load import load_device
from tests.support.duo import Duo
from tests.support.machines import ROUTER, SCHEDULER, ExecutorRig

NUM_BLOCKS = 32
BLOCK = 16


def load(folder: Path) -> Any:
    return load_device("cpu", folder, num_blocks=NUM_BLOCKS, block_size=BLOCK)


def compute(rig: ExecutorRig, device: Any) -> list[Any]:
    """The device does the oldest launched step, and the machine hears its result."""
    plan: StepPlan = rig.steps.popleft()
    device.launch(plan)
    return rig.do(ev.StepDone(device.collect(plan.step_id)))


class Alone:
    """One unified executor that computes."""

    def __init__(self, folder: Path, **knobs: Any) -> None:
        self.device = load(folder)
        self.rig = ExecutorRig(Role.UNIFIED, self.device.layout, NUM_BLOCKS, **knobs)
        self.rig.up(SCHEDULER, ROUTER)

    def answer(self, number: int, asked: Any) -> list[Any]:
        """All that the machine says until the attempt is over."""
        out = self.rig.run(number, asked)
        while self.rig.steps:
            out += compute(self.rig, self.device)
        return out


class ComputingDuo(Duo):
    """A prefill and a decode executor that compute; a piece that lands is copied with its block."""

    def __init__(self, folder: Path, **knobs: Any) -> None:
        self.devices = {name: load(folder) for name in ("prefill", "decode")}
        super().__init__(layout=self.devices["decode"].layout, num_blocks=NUM_BLOCKS, **knobs)

    def do(self, move: str) -> None:
        who, what = move.rsplit(" ", 1)
        if what == "steps":
            self._perform(who, compute(self.rigs[who], self.devices[who]))
            return
        if what == "lands":
            piece = self.rigs["prefill"].pieces[0]
            source, destination = self.devices["prefill"].cache.memory, self.devices["decode"].cache.memory
            destination[piece.destination_block] = source[piece.source_block]
        super().do(move)

    def answer(self, number: int, asked: Any) -> list[Any]:
        """All that the router hears until nothing more can happen."""
        before = len(self.told)
        self.place(number, asked)
        self.settle()
        return [event.message for event in self.told[before:]]
