"""Two small nodes over real sockets: a router that says numbers and a scheduler that hears them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baton.core.events import ConnectLink, Note, PeerDown, PeerUp, Received, Send, each_of
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.session.machine import LinkTiming, Transmit
from baton.core.session.node import CloseLink, Node, OpenLink
from baton.core.wire.messages import Abort, Refusal
from baton.services.runtime.driver import Driver
from baton.services.transport.keys import KeyRing
from baton.services.transport.zmq_links import LinkLimits, Links

TIMING = LinkTiming(heartbeat_s=0.1, silence_s=5.0)


class Say:
    """Event: send these numbers to the peer."""

    def __init__(self, peer: str, numbers: Sequence[int]) -> None:
        self.peer = peer
        self.numbers = numbers


class Chatter:
    """Remembers what it heard since the last PeerUp; a scheduler answers each number with the same one."""

    def __init__(self, is_scheduler: bool) -> None:
        self.next_wake: float | None = None
        self.ups: list[Peer] = []
        self.downs: list[str] = []
        self.heard: list[int] = []
        self._is_scheduler = is_scheduler

    def handle(self, event: Any, now: float) -> list[Any]:
        return [command for happened in each_of(event) for command in self._apply(happened)]

    def _apply(self, event: Any) -> list[Any]:
        match event:
            case PeerUp():
                self.ups.append(event.peer)
                self.heard = []
            case PeerDown():
                self.downs.append(event.reason)
            case Received():
                self.heard.append(event.message.id.request_id)
                if self._is_scheduler:
                    return [Send(event.peer.name, Refusal(event.message.id, 1))]
            case Say():
                return [Send(event.peer, Abort(AttemptId(number, 0))) for number in event.numbers]
        return []

    def check_invariants(self) -> None: ...

    def quiescent(self) -> bool:
        return True

    def gauges(self) -> dict[str, float]:
        return {}

    def readiness(self) -> str:
        return ""

    def unfinished(self) -> list[Note]:
        return []


class Process:
    """Driver, node and sockets of one trivial process, in this process."""

    def __init__(
        self,
        keys: Path,
        name: str,
        epoch: int,
        role: Role,
        limits: LinkLimits | None = None,
        timing: LinkTiming = TIMING,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.machine = Chatter(role is Role.SCHEDULER)
        self.failures: list[Exception] = []
        self.notes: list[str] = []
        self.driver = Driver(Node(Peer(name, role, epoch), self.machine, timing), loop, self.failures.append)
        self.links = Links(loop, Life(name, epoch), KeyRing(keys, name), self.driver.post, limits)
        self.driver.perform(Transmit, self.links.transmit)
        self.driver.perform(OpenLink, self.links.open)
        self.driver.perform(CloseLink, self.links.close)
        self.driver.perform(Note, lambda note: self.notes.append(note.what))

    def dial(self, name: str, address: str) -> None:
        self.driver.post(ConnectLink(Peer(name, Role.SCHEDULER, 0, address)))

    def shut(self) -> None:
        self.driver.stop()
        self.links.shut()
        assert self.failures == []
