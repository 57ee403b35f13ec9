"""Control links of a performance run: every frame takes the same time, none is lost."""

from __future__ import annotations

from baton.core.sim.env import Env
from baton.core.sim.link import Connection, Direction, Network
from baton.core.sim.process import Process

UNBOUND = 1 << 62


class SteadyNetwork(Network):
    """FIFO without bounds and faults."""

    def __init__(self, env: Env, latency_s: float) -> None:
        super().__init__(env, latency_s, UNBOUND)

    def _carry(
        self, connection: Connection, way: Direction, sender: Process, reader: Process, link: str, data: bytes
    ) -> None:
        way.num_unread += 1
        args = (connection, way, connection.generation, reader, link, data)
        self._env.time.after(self._latency_s, self.read_socket, *args)
