"""What the scheduler knows of one executor."""

from __future__ import annotations

from baton.core.ids import Capacity, Life, Peer, Role
from baton.core.kv.demand import Demand, demand
from baton.core.wire.messages import Pace, Work


class Executor:
    """One life of one executor, while its session is up. `index` is its account in the ledger."""

    def __init__(self, index: int, peer: Peer, capacity: Capacity) -> None:
        self.index = index
        self.peer = peer
        self.life = peer.life
        self._decodes = peer.role.runs_decode
        self.capacity = capacity
        self.pairs: set[Life] = set()  #: prefill executors whose KV it can receive
        self.num_pending_tokens = 0  #: prompt tokens placed there and not yet computed
        self.num_placed_tokens = 0  #: in all of this life, less what it had to compute when it came
        self.progressed_at = 0.0  #: when it said last that it has computed prompt tokens
        self.num_attempts = 0  #: attempts that decode there
        self.is_draining = False
        self.pace = Pace()  #: as it measured last

    def demand(self, work: Work) -> Demand:
        """What this executor takes at once for such an attempt."""
        capacity = self.capacity
        return demand(
            work.num_tokens, work.max_new_tokens, work.num_choices, capacity.growth_reserve, capacity.block_size
        )

    def fits_empty(self, work: Work) -> bool:
        """Whether it could serve its part if it held nothing else, to the last token."""
        wanted, capacity = self.demand(work), self.capacity
        if self._decodes:
            return wanted.life_blocks <= capacity.num_blocks and wanted.num_slots <= capacity.num_slots
        return wanted.prefill_blocks <= capacity.num_blocks

    def num_ahead(self, end_token: int) -> int:
        """How many prompt tokens it has still to compute until that one of all that were placed here is computed."""
        return max(0, end_token - (self.num_placed_tokens - self.num_pending_tokens))

    @property
    def can_prefill(self) -> bool:
        return not self.is_draining and self.peer.role is Role.PREFILL

    @property
    def can_decode(self) -> bool:
        return self._decodes and not self.is_draining

    @property
    def can_run(self) -> bool:
        return not self.is_draining and self.peer.role is Role.UNIFIED
