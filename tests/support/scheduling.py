"""A scheduler's machine on a bench: the test plays routers, executors and launcher."""

from __future__ import annotations

from typing import Any

from baton.core.config import SchedulerConfig
from baton.core.events import PeerDown, PeerUp, Received, Send, Wake
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.scheduler.machine import SchedulerCore
from baton.core.wire import messages as m
from tests.support.machines import ROUTER, SCHEDULER, an_executor, prompt, work

LAUNCHER = Peer("launcher", Role.LAUNCHER, 1)


class SchedulerRig:
    """Books are checked after every event; `placed` collects what went to executors, by attempt."""

    def __init__(self, **knobs: Any) -> None:
        self.core = SchedulerCore(SCHEDULER, SchedulerConfig(**knobs))
        self.now = 100.0
        self.turns: list[tuple[Any, float, list[Any]]] = []
        self.placed: dict[AttemptId, list[tuple[str, Any]]] = {}

    def do(self, event: Any, after_s: float = 0.0) -> list[Any]:
        self.now += after_s
        out = self.core.handle(event, self.now)
        self.turns.append((event, self.now, out))
        for command in out:
            if isinstance(command, Send) and isinstance(command.message, (m.Prefill, m.Decode, m.Run)):
                self.placed.setdefault(command.message.id, []).append((command.peer, command.message))
        self.core.check_invariants()
        return out

    def hear(self, peer: Peer, message: Any, after_s: float = 0.0) -> list[Any]:
        return self.do(Received(peer, message), after_s)

    def wake(self, after_s: float = 0.0) -> list[Any]:
        return self.do(Wake(), after_s)

    def up(self, *peers: Peer) -> list[Any]:
        return [command for peer in peers for command in self.do(PeerUp(peer))]

    def down(self, peer: Peer) -> list[Any]:
        return self.do(PeerDown(peer, "silence"))

    def join(self, peer: Peer, *, pairs: tuple[Life, ...] = (), live: Any = (), **grant: Any) -> list[Any]:
        """An executor comes with its inventory; it grants all that its capacity says unless told otherwise."""
        assert peer.capacity is not None
        blocks = grant.get("num_blocks", peer.capacity.num_blocks)
        slots = grant.get("num_slots", peer.capacity.num_slots)
        inventory = m.ExecutorInventory(
            live, blocks, slots, pairs, grant.get("cached", b""), grant.get("draining", False)
        )
        return self.up(peer) + self.hear(peer, inventory)

    def submit(self, number: int, asked: m.Work | None = None, *, after_s: float = 0.0, **fields: Any) -> list[Any]:
        """A router asks for a place. `fields`: attempt, time_left_ms, age_ms, priority_class, tenant."""
        attempt = fields.pop("attempt", 0)
        fields.setdefault("time_left_ms", 60_000)
        message = m.Submit(AttemptId(number, attempt), asked or work(prompt(8, number % 50)), **fields)
        return self.hear(ROUTER, message, after_s)

    def ended(
        self, peer: Peer, number: int, num_blocks: int, num_slots: int = 1, *, attempt: int = 0, **f: int
    ) -> list[Any]:
        """An executor ends an attempt and gives its credit back."""
        out = self.hear(peer, m.Ended(AttemptId(number, attempt)))
        return out + self.hear(peer, m.Credit(num_blocks, num_slots, f.get("num_prompt_tokens", 0)))

    def where(self, number: int, attempt: int = 0) -> list[str]:
        """Executors that the attempt was sent to, in order."""
        return [name for name, _ in self.placed.get(AttemptId(number, attempt), [])]


def pair_of(
    rig: SchedulerRig, *, p: dict[str, int] | None = None, d: dict[str, int] | None = None
) -> tuple[Peer, Peer]:
    """One prefill and one decode executor, ready; and a router."""
    prefill, decode = an_executor("prefill", Role.PREFILL, **(p or {})), an_executor("decode", Role.DECODE, **(d or {}))
    rig.up(ROUTER)
    rig.join(prefill)
    rig.join(decode, pairs=(prefill.life,))
    return prefill, decode


def unified_of(rig: SchedulerRig, **capacity: int) -> Peer:
    """One unified executor, ready; and a router."""
    peer = an_executor("unified", Role.UNIFIED, **capacity)
    rig.up(ROUTER)
    rig.join(peer)
    return peer
