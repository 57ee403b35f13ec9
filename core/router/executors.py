"""The executors as a router sees them: whom the scheduler named, and with whom a session is up."""

from __future__ import annotations

from typing import Any

from baton.core.events import ConnectLink, DropLink
from baton.core.ids import Life, Peer, Role
from baton.core.wire.messages import Roster


class Executors:
    """Links follow the scheduler's roster; one to an executor that it no longer names goes when its session is over."""

    def __init__(self) -> None:
        self._linked: dict[str, Peer] = {}  #: whose session is up
        self._named: dict[str, Peer] = {}
        self._can_serve = False

    def __len__(self) -> int:
        """How many are linked."""
        return len(self._linked)

    @property
    def named(self) -> tuple[Peer, ...]:
        """The live executors as the scheduler last named them."""
        return tuple(self._named.values())

    def is_linked(self, life: Life) -> bool:
        peer = self._linked.get(life.name)
        return peer is not None and peer.epoch == life.epoch

    def up(self, peer: Peer) -> None:
        self._linked[peer.name] = peer

    def down(self, peer: Peer) -> list[Any]:
        self._linked.pop(peer.name, None)
        return [] if peer.name in self._named else [DropLink(peer.name)]

    def on_roster(self, roster: Roster) -> list[Any]:
        """The roster is a level: it replaces the last one."""
        fresh = {peer.name: peer for peer in roster.executors}
        gone = [name for name in self._named if name not in fresh and name not in self._linked]
        self._named = fresh
        self._can_serve = roster.can_serve
        return [*map(DropLink, gone), *map(ConnectLink, roster.executors)]

    def readiness(self) -> str:
        """Empty when a placed request would be heard of, else why not."""
        named = {peer.role for peer in self._named.values()}
        linked = {peer.role for name, peer in self._named.items() if name in self._linked}
        needed = {Role.DECODE, Role.PREFILL} if Role.PREFILL in named else {Role.DECODE}
        if Role.UNIFIED not in linked and not needed <= linked:
            return "no pair of executors is linked"
        return "" if self._can_serve else "no pair of executors is ready"
