"""The simulated launcher's machine: says which lives have ended, as a level: all of them again in every session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from baton.core.events import Note, PeerDown, PeerUp, Send, each_of
from baton.core.ids import Life, Peer
from baton.core.wire.messages import Exited


class ChildExited(msgspec.Struct, frozen=True, tag=90):
    """The launcher's wait for a child returned."""

    life: Life


class LauncherCore:
    """Knows only exits that it saw itself."""

    def __init__(self, own: Peer) -> None:
        self.own = own
        self.next_wake: float | None = None
        self._exited: list[Life] = []
        self._schedulers: list[str] = []  #: names of the schedulers with a session

    def handle(self, event: Any, now: float) -> Sequence[Any]:
        """See `baton.core.events.Machine`."""
        return [command for happened in each_of(event) for command in self._apply(happened)]

    def _apply(self, event: Any) -> Sequence[Any]:
        match event:
            case ChildExited(life=life):
                self._exited.append(life)
                return [Send(name, Exited(life)) for name in self._schedulers]
            case PeerUp(peer=peer):
                self._schedulers.append(peer.name)
                return [Send(peer.name, Exited(life)) for life in self._exited]
            case PeerDown(peer=peer):
                self._schedulers.remove(peer.name)
        return []

    def check_invariants(self) -> None:
        """Nothing can be wrong."""

    def quiescent(self) -> bool:
        return True

    def gauges(self) -> dict[str, float]:
        return {}

    def readiness(self) -> str:
        return ""

    def unfinished(self) -> list[Note]:
        return []
