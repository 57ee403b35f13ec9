"""The executors that the scheduler may use: who they are, what they granted, what they hold in their prefix indexes."""

from __future__ import annotations

from collections.abc import Iterator

from baton.core.errors import InvariantViolated
from baton.core.ids import Life, Peer, Role
from baton.core.kv.demand import Demand
from baton.core.kv.ledger import Ledger
from baton.core.scheduler.directory import Directory
from baton.core.scheduler.executors import Executor
from baton.core.wire.messages import ExecutorInventory, Pace, Roster, Work


class Fleet:
    """Executors whose inventory has come, by name. An executor without a session is not in it."""

    def __init__(self, strict_pd: bool = False) -> None:
        self.ledger = Ledger()
        self._strict_pd = strict_pd
        self.directory = Directory()
        self.version = 0  #: changes with who is here, what they take, whom they can receive from and what they measured
        self._by_name: dict[str, Executor] = {}
        self._can_serve: tuple[int, bool] = (-1, False)  #: the version that it was found for, and what

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Executor]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Executor | None:
        return self._by_name.get(name)

    def is_foreign(self, peer: Peer) -> bool:
        """Whether its KV layout (model, tokenizer, geometry) is not that of the others."""
        others = {e.peer.layout_fingerprint for e in self if e.peer.name != peer.name}
        return bool(others) and peer.layout_fingerprint not in others

    def join(self, peer: Peer, inventory: ExecutorInventory) -> Executor:
        """A session begins: its account holds exactly what it grants now."""
        if peer.capacity is None:
            raise InvariantViolated(f"{peer.name} joins without a capacity")
        self.leave(peer.name)
        used = {executor.index for executor in self}
        executor = Executor(next(i for i in range(len(used) + 1) if i not in used), peer, peer.capacity)
        executor.pairs = set(inventory.pairs)
        executor.is_draining = inventory.draining
        self._by_name[peer.name] = executor
        self.version += 1
        self.ledger.open(executor.index, inventory.num_blocks, inventory.num_slots)
        self.directory.reset(executor.index, inventory.cached)
        return executor

    def leave(self, name: str) -> bool:
        """Its session is over, and with it its credit; whether it was there."""
        executor = self._by_name.pop(name, None)
        if executor is None:
            return False
        self.version += 1
        self.ledger.close(executor.index)
        self.directory.reset(executor.index, b"")
        return True

    def drain(self, executor: Executor) -> None:
        """It takes nothing new."""
        executor.is_draining = True
        self.version += 1

    def pair(self, executor: Executor, prefill: Life) -> None:
        """It can receive what that life computes."""
        executor.pairs.add(prefill)
        self.version += 1

    def unpair(self, executor: Executor, prefill: Life) -> None:
        """It can receive nothing of it, for now or for good."""
        executor.pairs.discard(prefill)
        self.version += 1

    def measured(self, executor: Executor, pace: Pace) -> None:
        """What its steps and transfers took of late."""
        executor.pace = pace
        self.version += 1

    def roster(self) -> Roster:
        return Roster(tuple(executor.peer for _, executor in sorted(self._by_name.items())), self.can_serve())

    def falls_back(self) -> bool:
        """R2, R3: whether decode executors compute all prompts, since no prefill executor lives that takes any."""
        return not self._strict_pd and not any(e.can_prefill for e in self)

    def can_serve(self) -> bool:
        """Whether some executor, or some pair of them, takes requests."""
        if self._can_serve[0] != self.version:
            self._can_serve = self.version, self._find_whether_it_serves()
        return self._can_serve[1]

    def _find_whether_it_serves(self) -> bool:
        prefills = {e.life for e in self if e.can_prefill}
        falls_back = self.falls_back()
        return any(e.can_run or (e.can_decode and (falls_back or e.pairs & prefills)) for e in self)

    def least_demand(self, work: Work) -> Demand:
        """The least that any executor would ask; before one is known any will do, it is computed again then."""
        demands = [e.demand(work) for e in self if e.peer.role.runs_decode]
        if not demands:
            return Demand(1, 1, 1, work.num_choices)
        return min(demands, key=lambda demand: demand.decode_blocks)

    def never_fits(self, work: Work) -> dict[str, float] | None:
        """The numbers that say why no executor could ever serve this, or None."""
        decodes = [e for e in self if e.peer.role.runs_decode]
        prefills = decodes if self.falls_back() else [e for e in self if e.peer.role is not Role.DECODE]
        if not decodes or not prefills:
            return None
        if all(any(e.fits_empty(work) for e in kind) for kind in (decodes, prefills)):
            return None
        wanted = self.least_demand(work)
        largest = max(e.capacity.num_blocks for e in decodes)
        return {"blocks": wanted.life_blocks, "largest": largest, "slots": wanted.num_slots}

    def check_invariants(self) -> None:
        """Raises RuntimeError or InvariantViolated."""
        self.ledger.check_invariants()
        if sorted(self.ledger.executors()) != sorted(e.index for e in self):
            raise InvariantViolated("accounts and executors differ")
        if self.can_serve() != self._find_whether_it_serves():
            raise InvariantViolated("something changed in the fleet and its version did not")
        for executor in self:
            if executor.num_pending_tokens < 0:
                raise InvariantViolated(f"{executor.peer.name} computed more tokens than were placed there")
