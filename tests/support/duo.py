"""A prefill and a decode executor's machines, their control link a FIFO each way that the test lets flow."""

from __future__ import annotations

from collections import deque
from typing import Any

from baton.core.events import PeerDown, PeerUp, Received, Send, Wake
from baton.core.executor import events as ev
from baton.core.ids import AttemptId, Peer, Role
from baton.core.wire import messages as m
from tests.support.machines import ROUTER, SCHEDULER, D, ExecutorRig, P


class Duo:
    """`moves()` names everything that could happen next; `do(move)` lets it happen; `told` is what the router hears."""

    def __init__(self, **knobs: Any) -> None:
        rigs = (ExecutorRig(Role.PREFILL, **knobs), ExecutorRig(Role.DECODE, **knobs))
        self.rigs: dict[str, ExecutorRig] = {rig.own.name: rig for rig in rigs}
        self.links: dict[str, deque[Any]] = {"prefill": deque(), "decode": deque()}  #: by receiver
        self.told: list[Any] = []
        self.to_scheduler: list[Any] = []
        for name, rig in self.rigs.items():
            self._perform(name, rig.up(SCHEDULER, ROUTER, D if name == "prefill" else P))
        self.settle()

    def place(self, number: int, asked: m.Work, *, attempt: int = 0) -> None:
        self._perform("decode", self.rigs["decode"].decode(number, asked, P, attempt=attempt))
        self._perform("prefill", self.rigs["prefill"].prefill(number, asked, attempt=attempt))

    def can_place(self, num_blocks: int = 16, num_slots: int = 3) -> bool:
        """Whether the pair is ready and both ends promised so much."""
        if not any(t.is_paired for t in self.rigs["decode"].state.transports.values()):
            return False
        memories = [rig.state.memory for rig in self.rigs.values()]
        return all(mem.outstanding_blocks >= num_blocks and mem.outstanding_slots >= num_slots for mem in memories)

    def abort(self, number: int, attempt: int = 0) -> None:
        for name in self.rigs:
            self.abort_at(name, AttemptId(number, attempt))

    def moves(self) -> list[str]:
        found = [f"{name} hears" for name, link in self.links.items() if link]
        found += [f"{name} {how}" for name, rig in self.rigs.items() if rig.steps for how in ("steps", "strays")]
        found += [f"{name} connects" for name, rig in self.rigs.items() if rig.transports]
        found += [f"{name} wakes" for name, rig in self.rigs.items() if self._retry_at(rig) is not None]
        return found + (["a piece lands", "a piece fails"] if self.rigs["prefill"].pieces else [])

    def do(self, move: str) -> None:
        who, what = move.rsplit(" ", 1)
        prefill = self.rigs["prefill"]
        match what:
            case "hears":
                speaker = P if who == "decode" else D
                self._perform(who, self.rigs[who].hear(speaker, self.links[who].popleft()))
            case "steps":
                self._perform(who, self.rigs[who].step_done())
            case "strays":  # nothing that it samples is what its grammar allows
                rig = self.rigs[who]
                self._perform(who, rig.step_done(failing=[item.seq_id for item in rig.rows(rig.steps[0])]))
            case "connects":
                self._perform(who, self.rigs[who].answer_transport())
            case "wakes":
                rig = self.rigs[who]
                self._perform(who, rig.do(Wake(), max(0.0, (self._retry_at(rig) or 0.0) - rig.now)))
            case "lands":
                self._perform("prefill", prefill.piece_landed())
            case "fails":
                self._perform("prefill", prefill.do(ev.PieceFailed(prefill.pieces.popleft().piece_id)))

    def settle(self) -> None:
        """Let everything happen that can, without failures, until nothing can."""
        while moves := [move for move in self.moves() if not move.endswith((" fails", " strays"))]:
            self.do(moves[0])

    def cut(self) -> None:
        """The control link between them is lost and comes back; what was on its way is gone."""
        for link in self.links.values():
            link.clear()
        peers: tuple[tuple[str, Peer], ...] = (("prefill", D), ("decode", P))
        for name, peer in peers:
            self._perform(name, self.rigs[name].do(PeerDown(peer, "cut")))
        for link in self.links.values():
            link.clear()
        for name, peer in peers:
            self._perform(name, self.rigs[name].do(PeerUp(peer)))

    def _retry_at(self, rig: ExecutorRig) -> float | None:
        """When a transport that is closed is to be opened again."""
        times = [t.retry_at for t in rig.state.transports.values() if t.is_closed and t.retry_at is not None]
        return min(times, default=None)

    def _tell_scheduler(self, name: str, message: Any) -> None:
        """As a scheduler does, what no decode executor would take is given up."""
        self.to_scheduler.append((name, message))
        if name == "decode" and isinstance(message, m.Ended):
            self.abort_at("prefill", message.id)

    def abort_at(self, name: str, work_id: AttemptId) -> None:
        self._perform(name, self.rigs[name].abort(work_id.request_id, work_id.attempt))

    def _perform(self, name: str, commands: list[Any]) -> None:
        for command in commands:
            if isinstance(command, Send):
                if command.peer in self.links:
                    self.links[command.peer].append(command.message)
                elif command.peer == "router":
                    self.told.append(Received(self.rigs[name].own, command.message))
                else:
                    self._tell_scheduler(name, command.message)
