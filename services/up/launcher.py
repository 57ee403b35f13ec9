"""The launcher's machine: says which lives have ended, as a level: the last of each name again in every session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from baton.core.events import Note, PeerDown, PeerUp, Send, each_of
from baton.core.ids import Life, Peer, Role
from baton.core.wire.messages import Exited


class ChildExited(msgspec.Struct, frozen=True, tag=90):
    """The wait for this child returned: nothing of it runs any more."""

    life: Life


class LauncherCore:
    """Knows only exits that it saw itself."""

    def __init__(self, own: Peer) -> None:
        self.own = own
        self.next_wake: float | None = None
        self._exited: dict[str, int] = {}  #: name → epoch of its last life that ended; earlier ones ended before
        self._scheduler: Peer | None = None

    def handle(self, event: Any, now: float) -> Sequence[Any]:
        """See `baton.core.events.Machine`."""
        return [command for happened in each_of(event) for command in self._apply(happened)]

    def _apply(self, event: Any) -> Sequence[Any]:
        match event:
            case ChildExited(life=life):
                self._exited[life.name] = life.epoch
                return [] if self._scheduler is None else [Send(self._scheduler.name, Exited(life))]
            case PeerUp(peer=peer) if peer.role is Role.SCHEDULER:
                self._scheduler = peer
                return [Send(peer.name, Exited(Life(*item))) for item in self._exited.items()]
            case PeerDown(peer=peer) if peer == self._scheduler:
                self._scheduler = None
        return []

    def check_invariants(self) -> None:
        """Nothing can be wrong."""

    def quiescent(self) -> bool:
        return True

    def gauges(self) -> dict[str, float]:
        return {"exits": float(len(self._exited))}

    def readiness(self) -> str:
        return "" if self._scheduler is not None else "no session with the scheduler"

    def unfinished(self) -> list[Note]:
        return []
