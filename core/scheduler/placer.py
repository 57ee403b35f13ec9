"""The two walks: arrivals to those who compute their prompts, computed prompts to those who decode.

Resource order: the prefill executor's blocks first, then all of the decode executor's at once. So whoever holds
anything on a decode executor waits for nothing but compute and transfer that have their memory already; what waits for
a decode executor holds blocks of a prefill executor alone, which parks a bounded number of computed tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from baton.core.config import SchedulerConfig
from baton.core.errors import InvariantViolated
from baton.core.ids import AttemptId, Life
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.placed import Placed, PlacedAttempts
from baton.core.scheduler.placement import Placement
from baton.core.scheduler.queue import ArrivalQueue, Waiting, WaitingQueue
from baton.core.wire import messages as m

UNBOUNDED = 1 << 62


class Placer:
    """Spends credit. What it decides is collected as (life, message) in order."""

    def __init__(self, fleet: Fleet, config: SchedulerConfig) -> None:
        self.arrivals = ArrivalQueue()
        self.handoffs = WaitingQueue()  #: prompts that are computed or being computed, without a decode executor
        self.placed = PlacedAttempts()
        self.num_placed = 0  #: so far
        self._placement = Placement(fleet, config)
        self._fleet = fleet
        self._config = config
        self._now = 0.0
        self._said: list[tuple[Life, Any]] = []

    def walk(self, now: float) -> list[tuple[Life, Any]]:
        """Place whatever fits."""
        self._now = now
        self._said = []
        self._hand_off()
        barred = self._collecting(self.arrivals)
        while barred and self._try_place(self.arrivals.first(), ()):
            barred = self._collecting(self.arrivals)
        after = self.arrivals.ready.first() if barred else -1
        while len(self.arrivals):
            handle = self._first_arrival(barred, after)
            if handle < 0:
                break
            if not self._try_place(self.arrivals.get(handle), barred):
                after = handle
        return self._said

    def adopt(self, executor: Executor, live: Mapping[AttemptId, int]) -> None:
        """A session with it began: what it still computes is counted anew. `live`: prompt tokens that are left."""
        for waiting in self.handoffs.all():
            if waiting.prefill == executor.life:
                is_computed = not live.get(waiting.submit.id)
                waiting.due_at = 0 if is_computed else self._placement.due_at(executor)

    def on_computed(self, work_id: AttemptId) -> None:
        """It is due, whatever was predicted: a prefill executor that has parked enough waits for it."""
        waiting = self.handoffs.find(work_id)
        if waiting is not None:
            waiting.due_at = 0

    def stranded(self) -> list[Waiting]:
        """Prompts whose prefill executor is here and has no partner any more that could decode them."""
        return [
            waiting
            for waiting in self.handoffs.all()
            if (prefill := self._prefill_of(waiting)) is not None
            and not self._placement.can_decode_somewhere(waiting, prefill)
        ]

    # ---- arrivals

    def _first_arrival(self, barred: Collection[int], after: int) -> int:
        """The first that fits some executor's room, or -1."""
        most_prefill = most_run = -1
        for executor in self._fleet:
            blocks, slots = self._fleet.ledger.available(executor.index)
            if slots < 1 or executor.index in barred or not self._placement.is_fed_less(executor):
                continue
            if executor.can_run:
                most_run = max(most_run, blocks)
            else:
                most_prefill = max(most_prefill, blocks)
        ready = self.arrivals.ready
        found = [ready.first_fit(most_prefill, UNBOUNDED, after), ready.first_fit(UNBOUNDED, most_run, after)]
        fitting = [waiting for handle in found if (waiting := self.arrivals.get(handle)) is not None]
        return min(fitting, key=lambda waiting: waiting.key).handle if fitting else -1

    def _try_place(self, waiting: Waiting | None, barred: Collection[int]) -> bool:
        if waiting is None:
            return False
        executor = self._placement.choose(waiting, barred)
        if executor is None:
            return False
        head = self.arrivals.first()
        if head is not None and head is not waiting and head.passed_at is None:
            head.passed_at = self._now
        self.arrivals.take(waiting)
        waiting.passed_at = None
        self.num_placed += 1
        work = waiting.submit.work
        executor.num_pending_tokens += work.num_tokens
        if executor.can_run:
            self._run(waiting, executor)
        else:
            self._prefill(waiting, executor)
        return True

    def _run(self, waiting: Waiting, executor: Executor) -> None:
        submit = waiting.submit
        blocks = executor.demand(submit.work).decode_blocks
        self._spend(executor, blocks, submit.work.num_choices)
        executor.num_attempts += 1
        placed = Placed(submit.id, submit.work.router, executor.life, executor.life)
        self.placed.add(placed)
        self._say(executor.life, m.Run(submit.id, submit.work, waiting.order, blocks, self._left_ms(waiting)))
        self._tell_router(waiting, placed)

    def _prefill(self, waiting: Waiting, executor: Executor) -> None:
        submit = waiting.submit
        blocks = executor.demand(submit.work).prefill_blocks
        self._spend(executor, blocks, 1)
        waiting.prefill = executor.life
        waiting.due_at = self._placement.due_at(executor)
        placed = Placed(submit.id, submit.work.router, executor.life, None)
        self.placed.add(placed)
        self.handoffs.insert(waiting)
        self._say(executor.life, m.Prefill(submit.id, submit.work, waiting.order, blocks, self._left_ms(waiting)))
        self._hand_off()
        if placed.decode is None:
            self._tell_router(waiting, placed)

    # ---- computed prompts

    def _hand_off(self) -> None:
        """Reserve decode executors, in order, for what is due or fits with slack."""
        barred = self._collecting(self.handoffs)
        while barred and self._try_hand_off(self.handoffs.first(), ()):
            barred = self._collecting(self.handoffs)
        after = self.handoffs.ready.first() if barred else -1
        while len(self.handoffs):
            handle = self.handoffs.ready.first_fit(UNBOUNDED, self._most_decode(barred), after)
            if handle < 0:
                return
            if not self._try_hand_off(self.handoffs.get(handle), barred):
                after = handle

    def _most_decode(self, barred: Collection[int]) -> int:
        most = -1
        for executor in self._fleet:
            blocks, slots = self._fleet.ledger.available(executor.index)
            if slots >= 1 and executor.pairs and executor.can_decode and executor.index not in barred:
                most = max(most, blocks)
        return most

    def _try_hand_off(self, waiting: Waiting | None, barred: Collection[int]) -> bool:
        prefill = None if waiting is None else self._prefill_of(waiting)
        if waiting is None or prefill is None:
            return False
        decode = self._placement.choose_decode(waiting, prefill, barred)
        if decode is None:
            return False
        head = self.handoffs.first()
        if head is not None and head is not waiting and head.passed_at is None and self._is_due(head):
            head.passed_at = self._now
        self.handoffs.remove(waiting)
        work_id, work = waiting.submit.id, waiting.submit.work
        blocks = decode.demand(work).decode_blocks
        self._spend(decode, blocks, work.num_choices)
        decode.num_attempts += 1
        placed = self.placed.hand_over(work_id, decode.life)
        message = m.Decode(work_id, work, waiting.order, prefill.life, blocks, self._left_ms(waiting))
        self._say(decode.life, message)
        self._tell_router(waiting, placed)
        return True

    def _prefill_of(self, waiting: Waiting) -> Executor | None:
        """Who computes it, while its session is up."""
        if waiting.prefill is None:
            return None
        executor = self._fleet.get(waiting.prefill.name)
        return executor if executor is not None and executor.life == waiting.prefill else None

    def _is_due(self, waiting: Waiting) -> bool:
        prefill = self._prefill_of(waiting)
        return prefill is not None and self._placement.is_due(waiting, prefill)

    # ---- both

    def _collecting(self, queue: WaitingQueue) -> set[int]:
        """The executor that collects freed blocks for the queue's overdue head: a decode executor only for what has its
        prefill executor's blocks already."""
        head = queue.first()
        if head is None or head.passed_at is None or self._now - head.passed_at < self._config.bypass_s:
            return set()
        if queue is self.arrivals:
            pool = self._placement.able_to_hold(head)
        else:
            prefill = self._prefill_of(head)
            pool = [] if prefill is None else self._placement.able_to_decode(head, prefill)
        if not pool:
            return set()
        return {max(pool, key=lambda e: (self._fleet.ledger.available(e.index)[0], e.peer.name)).index}

    def _spend(self, executor: Executor, num_blocks: int, num_slots: int) -> None:
        if not self._fleet.ledger.try_spend(executor.index, num_blocks, num_slots):
            raise InvariantViolated(f"{executor.peer.name} was chosen without its credit")

    def _left_ms(self, waiting: Waiting) -> int:
        return max(1, int((waiting.deadline - self._now) * 1000))

    def _tell_router(self, waiting: Waiting, placed: Placed) -> None:
        queued_ms = (self._now - waiting.arrived_at) * 1000
        self._say(placed.router, m.Placed(placed.id, placed.prefill, placed.decode, queued_ms))

    def _say(self, life: Life, message: Any) -> None:
        self._said.append((life, message))
