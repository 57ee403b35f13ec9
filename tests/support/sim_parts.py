"""Small processes for tests of the simulator's parts: a node that only remembers what it was told."""

from __future__ import annotations

from typing import Any

from baton.core.config import ExecutorConfig
from baton.core.ids import Peer, Role
from baton.core.sim.device import Model, SimDevice
from baton.core.sim.env import Env
from baton.core.sim.memory import KvMemory, sim_layout
from baton.core.sim.process import Process
from baton.core.sim.step_time.fuzzed import StepTime
from baton.core.sim.transport import TransferThread
from baton.core.sim.writes import Fabric

LAYOUT = sim_layout(4, 1)


class SilentNode:
    """Takes every event and does nothing."""

    next_wake = None


class Bench:
    """Processes that share an environment; `heard[identity]` lists what their loops took from their inboxes."""

    def __init__(self, kind: str = "tcp", seed: int = 1) -> None:
        self.env = Env(seed)
        self.fabric = Fabric(LAYOUT, kind)
        self.heard: dict[str, list[Any]] = {}

    def process(self, name: str, role: Role = Role.ROUTER, epoch: int = 1, address: str = "") -> Process:
        own = Peer(name, role, epoch, address or f"sim://{name}")
        process = Process(self.env, own, SilentNode(), 0.0, self._turn)  # type: ignore[arg-type]
        self.heard[process.identity] = []
        return process

    def executor(self, name: str, role: Role, epoch: int = 1, num_blocks: int = 8) -> Process:
        process = self.process(name, role, epoch)
        process.memory = KvMemory(LAYOUT, num_blocks, self.env.rng)
        process.device = SimDevice(process, process.memory, StepTime(), Model(0))
        config = ExecutorConfig(window="fixed", piece_bytes=64)
        process.transfer = TransferThread(process, process.memory, self.fabric, config)
        return process

    def _turn(self, process: Process, event: Any) -> None:
        self.heard[process.identity].append(event)

    def run(self, until: float = 1e9) -> None:
        while len(self.env.time) and self.env.time.now < until:
            self.env.time.step()
