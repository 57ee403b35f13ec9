"""The executor's blocks and slots, and the part of them that the scheduler may spend.

    num_free ──┬── outstanding: granted to the scheduler, not yet spent; what it places always fits
               └── growable ──┬── to be granted
                              └── spare and headroom: for copies and for running sequences, never granted

Invariant: `outstanding_blocks ≤ pool.num_free` and `outstanding_slots + used_slots ≤ num_slots`.
"""

from __future__ import annotations

from baton.core.errors import InvariantViolated
from baton.core.kv.block_pool import BlockPool


class Memory:
    """Block pool, slots and escrow of one executor."""

    def __init__(self, num_blocks: int, num_slots: int, num_spare_blocks: int = 0) -> None:
        self.pool = BlockPool(num_blocks + num_spare_blocks)
        self.num_spare_blocks = num_spare_blocks
        self.num_slots = num_slots
        self.used_slots = 0
        self.outstanding_blocks = 0
        self.outstanding_slots = 0

    @property
    def growable(self) -> int:
        """Free blocks that nobody was promised."""
        return self.pool.num_free - self.outstanding_blocks

    def try_spend(self, num_blocks: int, num_slots: int) -> bool:
        """The scheduler spent this much of its credit; False, and no change, if it never had it."""
        if num_blocks > self.outstanding_blocks or num_slots > self.outstanding_slots:
            return False
        self.outstanding_blocks -= num_blocks
        self.outstanding_slots -= num_slots
        return True

    def void_credit(self) -> None:
        """The scheduler's session is over: what it did not spend in it, it never will."""
        self.outstanding_blocks = self.outstanding_slots = 0

    def grant(self, headroom: int) -> tuple[int, int]:
        """Promise all that is free beyond the spare and `headroom` blocks; returns what was added to the credit."""
        num_blocks = max(0, self.growable - self.num_spare_blocks - headroom)
        num_slots = max(0, self.num_slots - self.used_slots - self.outstanding_slots)
        self.outstanding_blocks += num_blocks
        self.outstanding_slots += num_slots
        return num_blocks, num_slots

    def take_slots(self, count: int) -> None:
        self.used_slots += count

    def free_slot(self) -> None:
        self.used_slots -= 1

    def check_invariants(self) -> None:
        """Raises InvariantViolated or PoolCorrupt."""
        self.pool.check_invariants()
        if not 0 <= self.outstanding_blocks <= self.pool.num_free:
            raise InvariantViolated(f"{self.outstanding_blocks} blocks promised, {self.pool.num_free} free")
        if self.outstanding_slots < 0 or not 0 <= self.used_slots <= self.num_slots - self.outstanding_slots:
            raise InvariantViolated(
                f"{self.used_slots} slots used, {self.outstanding_slots} promised of {self.num_slots}"
            )
