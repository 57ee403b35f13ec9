"""The other end of a node's links: speaks frames as a peer would, well or badly."""

from __future__ import annotations

from typing import Any

from baton.core.events import Note
from baton.core.ids import Peer
from baton.core.session.machine import Transmit
from baton.core.session.node import FrameArrived, Node
from baton.core.wire import frames as f
from baton.core.wire.codec import encode_message, encode_peer


class Silent:
    """A machine that remembers its events and answers with what the test put into `answers`."""

    def __init__(self) -> None:
        self.next_wake: float | None = None
        self.heard: list[Any] = []
        self.answers: list[list[Any]] = []

    def handle(self, event: Any, now: float) -> list[Any]:
        self.heard.append(event)
        return self.answers.pop(0) if self.answers else []

    def check_invariants(self) -> None:
        """It has none."""

    def quiescent(self) -> bool:
        return True

    def gauges(self) -> dict[str, float]:
        return {}

    def readiness(self) -> str:
        return ""

    def unfinished(self) -> list[Note]:
        return []


class Caller:
    """A peer that dials the node over one link. `said` are the node's frames to it."""

    def __init__(self, node: Node, peer: Peer, link: str = "") -> None:
        self.node = node
        self.peer = peer
        self.link = link or f"{peer.name}/{peer.epoch}"
        self.now = 100.0
        self.knock = peer.epoch << 20
        self.session = 0  #: as the node numbered it
        self.number = 0
        self.said: list[f.AnyFrame] = []

    def frame(self, frame: f.AnyFrame) -> list[Any]:
        return self.bytes(f.encode_frame(frame))

    def bytes(self, data: bytes) -> list[Any]:
        out = self.node.handle(FrameArrived(self.link, data), self.now)
        for frame in [f.decode_frame(c.data) for c in out if isinstance(c, Transmit) and c.link == self.link]:
            self.said.append(frame)
            if isinstance(frame, f.Welcome):
                self.session = frame.session
        return out

    def dial(self, version: int = f.PROTOCOL_VERSION) -> list[Any]:
        self.knock += 1
        self.number = 0
        return self.frame(f.Hello(version, self.knock, encode_peer(self.peer)))

    def say(self, message: Any) -> list[Any]:
        return self.body(encode_message(message))

    def body(self, body: bytes) -> list[Any]:
        self.number += 1
        return self.frame(f.Data(self.session, self.number - 1, (body,)))

    def data(self, *messages: Any) -> FrameArrived:
        """The next frame, not handed to the node yet."""
        self.number += 1
        frame = f.Data(self.session, self.number - 1, tuple([encode_message(message) for message in messages]))
        return FrameArrived(self.link, f.encode_frame(frame))

    @property
    def is_up(self) -> bool:
        """Whether the node takes the next message of this session."""
        ends = [one for one in self.said if isinstance(one, (f.Welcome, f.Reset)) and one.session == self.session]
        return bool(ends) and isinstance(ends[-1], f.Welcome)
