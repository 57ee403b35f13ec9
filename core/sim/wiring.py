"""The only place of the simulator that knows the machines' classes: from a scenario to the nodes of its processes."""

from __future__ import annotations

from typing import Protocol

from baton.core.config import RouterConfig, SchedulerConfig
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import Capacity, Peer, Role
from baton.core.kv.block_hash import hash_chain, root_hash
from baton.core.layout import KvLayout
from baton.core.router.machine import RouterCore
from baton.core.scheduler.machine import SchedulerCore
from baton.core.session.machine import LinkTiming
from baton.core.session.node import Node
from baton.core.sim.launcher import LauncherCore
from baton.core.sim.scenario import ExecutorSpec

HASH_KEY = bytes(range(16))


class Wired(Protocol):
    """What all processes of a run have in common."""

    @property
    def heartbeat_s(self) -> float: ...
    @property
    def silence_s(self) -> float: ...
    @property
    def block_size(self) -> int: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def scheduler(self) -> SchedulerConfig: ...
    @property
    def router(self) -> RouterConfig: ...


class Wiring:
    """Makes the nodes of one scenario. Stand-ins for tests override it."""

    def __init__(self, scenario: Wired, layout: KvLayout) -> None:
        self._scenario = scenario
        self._layout = layout
        self._timing = LinkTiming(scenario.heartbeat_s, scenario.silence_s)

    def executor_peer(self, spec: ExecutorSpec, epoch: int, address: str) -> Peer:
        config, num_spare = spec.config, self.num_spare_blocks(spec)
        capacity = Capacity(
            num_blocks=spec.num_blocks - num_spare,
            num_slots=config.num_slots,
            block_size=self._scenario.block_size,
            token_budget=config.token_budget,
            max_model_len=self._scenario.max_model_len,
            growth_reserve=config.growth_reserve,
            num_spare_blocks=num_spare,
            block_bytes=self._layout.block_bytes,
            checkpoint_blocks=self._layout.checkpoint_blocks,
        )
        return Peer(spec.name, spec.role, epoch, address, self._layout.fingerprint(), capacity)

    def num_spare_blocks(self, spec: ExecutorSpec) -> int:
        """Some pools have one, some have not."""
        return spec.num_blocks % 2 if spec.num_blocks > 2 else 0

    def executor(self, own: Peer, spec: ExecutorSpec) -> Node:
        return Node(own, ExecutorCore(own, self._layout, spec.config, HASH_KEY), self._timing)

    def scheduler(self, own: Peer) -> Node:
        return Node(own, SchedulerCore(own, self._scenario.scheduler), self._timing)

    def router(self, own: Peer) -> Node:
        return Node(own, RouterCore(own, self._scenario.router), self._timing)

    def launcher(self, own: Peer) -> Node:
        return Node(own, LauncherCore(own), self._timing)

    def other_peer(self, name: str, role: Role, epoch: int, address: str) -> Peer:
        return Peer(name, role, epoch, address)

    def hashes(self, prompt: bytes, salt: int) -> tuple[bytes, bytes]:
        """(root, hashes of all full blocks) of a prompt, as the router's HTTP side computes them."""
        root = root_hash(HASH_KEY, self._layout.fingerprint(), salt.to_bytes(8, "little") if salt else b"", b"")
        return root, hash_chain(HASH_KEY, root, prompt, self._scenario.block_size)
