"""Attempts that wait, in order, and what each needs: arrivals for a place, computed prompts for a decode executor."""

from __future__ import annotations

import math

from baton.core.deadlines import Deadlines
from baton.core.errors import Reason
from baton.core.ids import AttemptId, Life
from baton.core.kv.demand import Demand
from baton.core.kv.ready_queue import ReadyQueue
from baton.core.wire.messages import Order, Submit

MAX_TENANTS = 4096  #: remembered finish tags; beyond it those that no longer matter are forgotten


class Waiting:
    """One attempt in a queue."""

    __slots__ = (
        "arrived_at",
        "bucket",
        "deadline",
        "demand",
        "handle",
        "order",
        "passed_at",
        "patience",
        "placed_at",
        "prefill",
        "reason",
        "submit",
    )

    def __init__(self, handle: int, submit: Submit, order: Order, demand: Demand, now: float) -> None:
        self.handle = handle
        self.submit = submit
        self.order = order
        self.demand = demand
        self.arrived_at = now
        self.deadline = now + submit.time_left_ms / 1000
        self.passed_at: float | None = None  #: when a later one was first served before it
        self.prefill: Life | None = None  #: who computes its prompt
        self.bucket: ReadyQueue | None = None  #: where it hangs while it is set aside
        self.patience: Patience | None = None  #: once it has waited for a prefix
        self.placed_at: float | None = None  #: since when somebody does
        self.reason: Reason | None = None  #: why it waits where it does: known of those that were once first in line

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Its place among all that wait; smallest first."""
        return (self.order.priority_class, self.order.virtual_start, self.order.arrival, self.handle)

    @property
    def waited_ms(self) -> int:
        """How long its request has waited for prefixes, in this attempt and in earlier ones."""
        waited_s = 0.0 if self.patience is None else self.patience.waited_s
        return self.submit.waited_ms + math.ceil(waited_s * 1000)


class Patience:
    """What one attempt has waited for prefixes, and until when it may. The end is fixed when it first waits and nothing
    renews it (P3, P10); what earlier attempts of its request have waited is taken off."""

    __slots__ = ("num_held", "since", "until", "waited_s")

    def __init__(self, until: float, num_held: int) -> None:
        self.until = until
        self.num_held = num_held  #: blocks that it would have found where it would have gone instead of waiting
        self.since = 0.0  #: of the wait that is under way
        self.waited_s = 0.0  #: in those that are over


class WaitingQueue:
    """Ordered by (class, tenant's virtual start, arrival); the first whose demands fit is found without visiting those
    that do not."""

    def __init__(self) -> None:
        self.ready = ReadyQueue()
        self._by_handle: dict[int, Waiting] = {}
        self._handles: dict[AttemptId, int] = {}

    def __len__(self) -> int:
        return len(self._by_handle)

    def __contains__(self, work_id: AttemptId) -> bool:
        return work_id in self._handles

    def get(self, handle: int) -> Waiting | None:
        return self._by_handle.get(handle)

    def find(self, work_id: AttemptId) -> Waiting | None:
        handle = self._handles.get(work_id)
        return None if handle is None else self._by_handle[handle]

    def first(self) -> Waiting | None:
        return self._by_handle.get(self.ready.first())

    def all(self) -> list[Waiting]:
        return [self._by_handle[handle] for handle in self.ready.handles()]

    def remove(self, waiting: Waiting) -> None:
        self.ready.remove(waiting.handle)
        del self._by_handle[waiting.handle]
        del self._handles[waiting.submit.id]

    def set_demand(self, waiting: Waiting, demand: Demand) -> None:
        waiting.demand = demand
        self.ready.set_demand(waiting.handle, demand.prefill_blocks, demand.decode_blocks)

    def insert(self, waiting: Waiting) -> None:
        self._by_handle[waiting.handle] = waiting
        self._handles[waiting.submit.id] = waiting.handle
        self._line_up(waiting)

    def _line_up(self, waiting: Waiting) -> None:
        order, demand = waiting.order, waiting.demand
        place = (order.priority_class, order.virtual_start, order.arrival)
        self.ready.push(waiting.handle, *place, demand.prefill_blocks, demand.decode_blocks)

    def check_invariants(self) -> None:
        """Raises RuntimeError when the tree and the entries disagree."""
        self.ready.check_invariants()
        if len(self.ready) != len(self._by_handle) or len(self._handles) != len(self._by_handle):
            raise RuntimeError("the queue's tree and its entries differ")


class ArrivalQueue(WaitingQueue):
    """Start-time fair queueing among tenants, first come first served within one."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: Deadlines[int] = Deadlines()
        self.num_left_aside = 0  #: so far: those that were removed while they were set aside
        self._num_aside = 0
        self._finish: dict[str, int] = {}  #: by tenant: where its next request starts
        self._virtual_now = 0
        self._next_handle = 0

    def push(self, submit: Submit, demand: Demand, now: float) -> Waiting:
        self._next_handle += 1
        order = Order(submit.priority_class, self._virtual_start(submit), int(now * 1e6) - submit.age_ms * 1000)
        waiting = Waiting(self._next_handle, submit, order, demand, now)
        self.insert(waiting)
        self.deadlines.push(waiting.deadline, waiting.handle)
        return waiting

    def take(self, waiting: Waiting) -> None:
        """It was placed: virtual time moves to its start."""
        self._virtual_now = max(self._virtual_now, waiting.order.virtual_start)
        self.remove(waiting)

    def at(self, handle: int) -> Waiting:
        """Raises KeyError when it is not here."""
        return self._by_handle[handle]

    # ---- set aside: here, but not in line

    @property
    def num_aside(self) -> int:
        return self._num_aside

    def set_aside(self, waiting: Waiting, bucket: ReadyQueue) -> None:
        """It hangs in that bucket for now and nobody comes past it. It keeps its place."""
        self.ready.remove(waiting.handle)
        bucket.push(waiting.handle, *waiting.key[:3], 0, 0)
        waiting.bucket = bucket
        self._num_aside += 1

    def bring_back(self, waiting: Waiting) -> None:
        """It is in line again, where it was."""
        self._unhang(waiting)
        self._line_up(waiting)

    def is_aside(self, handle: int) -> bool:
        waiting = self._by_handle.get(handle)
        return waiting is not None and waiting.bucket is not None

    def all(self) -> list[Waiting]:
        return [*super().all(), *(w for w in self._by_handle.values() if w.bucket is not None)]

    def remove(self, waiting: Waiting) -> None:
        if waiting.bucket is not None:
            self.num_left_aside += 1
            self._unhang(waiting)
        super().remove(waiting)

    def set_demand(self, waiting: Waiting, demand: Demand) -> None:
        if waiting.bucket is None:
            super().set_demand(waiting, demand)
        else:
            waiting.demand = demand

    def check_invariants(self) -> None:
        """Raises RuntimeError when the tree and the entries disagree."""
        self.ready.check_invariants()
        in_line, aside = self.ready.handles(), self.handles_aside()
        is_whole = sorted([*in_line, *aside]) == sorted(self._by_handle) and len(aside) == self._num_aside
        if not is_whole or len(self._handles) != len(self._by_handle):
            raise RuntimeError("the arrivals in line and those set aside are not all, each once")

    def handles_aside(self) -> list[int]:
        return sorted(handle for handle, waiting in self._by_handle.items() if waiting.bucket is not None)

    def _unhang(self, waiting: Waiting) -> None:
        bucket, waiting.bucket = waiting.bucket, None
        if bucket is None or not bucket.remove(waiting.handle):
            raise RuntimeError(f"{waiting.submit.id} is not set aside")
        self._num_aside -= 1

    def _virtual_start(self, submit: Submit) -> int:
        """A later attempt of a request goes on where the line begins: its tenant has paid for it already. Virtual time
        may be further than that: those that passed the first have moved it."""
        if submit.id.attempt or submit.work.num_prior:
            first = self.first()
            return self._virtual_now if first is None else min(self._virtual_now, first.order.virtual_start)
        start = max(self._virtual_now, self._finish.get(submit.tenant, 0))
        self._finish[submit.tenant] = start + submit.work.num_tokens + submit.work.max_new_tokens
        if len(self._finish) > MAX_TENANTS:
            self._finish = {t: v for t, v in self._finish.items() if v > self._virtual_now}
        return start
