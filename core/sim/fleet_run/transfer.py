"""KV over wires: a set-up time and bytes over a rate. Ports are shared in the order of the posts; nothing fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baton.core.events import one_of
from baton.core.executor import events as e
from baton.core.layout import KvLayout
from baton.core.sim.env import Env
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.records import PieceRecord
from baton.core.sim.fleet_run.spec import Wires


class Ports:
    """Until when each port is taken, in each direction."""

    def __init__(self, wires: Wires) -> None:
        self.wires = wires
        self._out: dict[str, float] = {}
        self._in: dict[str, float] = {}

    def send(self, source: str, destination: str, num_bytes: int, now: float) -> float:
        """When these bytes, posted now, have landed."""
        begin = max(now, self._out.get(source, 0.0), self._in.get(destination, 0.0))
        end = begin + num_bytes / self.wires.kv_bytes_per_s
        self._out[source] = self._in[destination] = end
        return end + self.wires.kv_setup_s


class TimedTransfer:
    """The transfer thread of one executor."""

    def __init__(
        self, process: LoopProcess, ports: Ports, layout: KvLayout, record: Callable[[PieceRecord], None]
    ) -> None:
        self.process = process
        self.num_bytes = 0  #: posted so far
        self._env: Env = process.env
        self._ports = ports
        self._layout = layout
        self._record = record

    def take(self, command: Any) -> None:
        """A command of the machine reaches the thread."""
        match command:
            case e.Post():
                self.post(command)
            case e.OpenTransport():
                name = f"{self.process.identity}>{command.peer}/{command.peer_epoch}"
                self._soon(e.TransportOpened(command.peer, command.peer_epoch, name.encode(), 4096))
            case e.ConnectTransport():
                self._soon(e.TransportConnected(command.peer, command.peer_epoch))
            case e.CloseTransport():
                self._soon(e.TransportClosed(command.peer, command.peer_epoch))
            case e.Drive():
                pass  # progress costs the thread nothing here

    def post(self, command: e.Post) -> None:
        """What lands within one poll is told together."""
        now, name = self._env.time.now, self.process.name
        together: list[e.PieceLanded] = []
        first_at = landed_at = num_bytes = 0.0
        for piece in command.pieces:
            size = self.piece_bytes(piece)
            lands_at = self._ports.send(name, piece.peer, size, now)
            if together and lands_at - first_at > self._ports.wires.poll_s:
                self._land(together, piece.peer, now, landed_at, int(num_bytes))
                together, num_bytes = [], 0.0
            if not together:
                first_at = lands_at
            together.append(e.PieceLanded(piece.piece_id, 0.0, now))
            landed_at = lands_at
            num_bytes += size
        self._land(together, command.pieces[-1].peer, now, landed_at, int(num_bytes))

    def piece_bytes(self, piece: e.Piece) -> int:
        planes, slots = piece.end_plane - piece.first_plane, piece.end_slot - piece.first_slot
        return planes * slots * self._layout.slot_bytes

    def _land(self, landed: list[e.PieceLanded], peer: str, posted_at: float, at: float, num_bytes: int) -> None:
        self.num_bytes += num_bytes
        self._record(PieceRecord(self.process.name, peer, posted_at, at, num_bytes))
        event = one_of(landed)
        self._env.time.at(at, self.process.report, event)

    def _soon(self, event: Any) -> None:
        self._env.time.after(self._ports.wires.kv_setup_s, self.process.report, event)
