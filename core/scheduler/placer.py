"""The two walks: arrivals to those who compute their prompts, computed prompts to those who decode.

Resource order: the prefill executor's blocks first, then all of the decode executor's at once. So whoever holds
anything on a decode executor waits for nothing but compute and transfer that have their memory already; what waits for
a decode executor holds blocks of a prefill executor alone, which parks a bounded number of computed tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from baton.core.config import SchedulerConfig
from baton.core.errors import InvariantViolated
from baton.core.ids import Life
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.handoffs import Handoffs
from baton.core.scheduler.placed import Placed, PlacedAttempts
from baton.core.scheduler.placement import MakePlacement, Placement
from baton.core.scheduler.prefix_wait import PrefixWait
from baton.core.scheduler.queue import ArrivalQueue, Waiting
from baton.core.scheduler.waits import Waits
from baton.core.wire import messages as m
from baton.core.wire.placement import PlacementReason

UNBOUNDED = 1 << 62


class Placer:
    """Spends credit. What it decides is collected as (life, message) in order."""

    def __init__(self, fleet: Fleet, config: SchedulerConfig, make_placement: MakePlacement = Placement) -> None:
        self.arrivals = ArrivalQueue()
        self.handoffs = Handoffs()
        self.placed = PlacedAttempts()
        self.num_placed = 0  #: so far
        self.num_by_reason = dict.fromkeys(PlacementReason, 0)  #: of these
        self._placement = make_placement(fleet, config)
        self.waits = Waits(self._placement)
        self.prefixes = PrefixWait(fleet, self._placement, self.arrivals, config)
        self._fleet = fleet
        self._config = config
        self._now = 0.0
        self._said: list[tuple[Life, Any]] = []

    def walk(self, now: float) -> list[tuple[Life, Any]]:
        """Place whatever fits: prompts that wait for a decode executor first, since they hold memory already."""
        self._now = now
        self._said = []
        if not len(self.arrivals) and not len(self.handoffs):
            return self._said
        self._placement.begin()
        self._hand_off_due()
        self._hand_off_early()
        self.prefixes.feed(now)
        self._place_arrivals()
        self._explain_waits()
        return self._said

    def stranded(self) -> list[Waiting]:
        """Prompts whose prefill executor is here and has no partner any more that could decode them."""
        return [
            waiting
            for waiting in self.handoffs.all()
            if (prefill := self._prefill_of(waiting)) is not None and not self._placement.partners(waiting, prefill)
        ]

    def _explain_waits(self) -> None:
        """Why whoever is first in a line now was left there."""
        self.waits.for_a_place(self.arrivals.first())
        head = self.handoffs.due.first()
        prefill = None if head is None or head.reason is not None else self._prefill_of(head)
        if head is not None and prefill is not None:
            self.waits.for_decode(head, self._placement.partners(head, prefill))

    # ---- arrivals

    def _place_arrivals(self) -> None:
        """Order, but for memory: one that lacks blocks is passed (W4), one that lacks a slot ends the walk (C7)."""
        kept, barred = self._collecting_decode(), self._collecting()
        while barred and self._try_place(self.arrivals.first(), kept):
            barred = self._collecting()
        after = self.arrivals.ready.first() if barred else -1
        barred, lends = barred | kept, True
        while len(self.arrivals):
            waiting = self._first_arrival(barred, after, lends)
            if waiting is None:
                return
            if not self._try_place(waiting, barred):
                if self._placement.lacks_slots_alone(waiting, [e for e in self._fleet if self._placement.runs(e)]):
                    return
                after, lends = waiting.handle, False

    def _first_arrival(self, barred: Collection[int], after: int, lends: bool) -> Waiting | None:
        """The first that fits the room of some executor that decodes, too, or is paired with one that does. `lends`: or
        of one that computes some prompts: whoever does not get that waits for another's steps, and nobody passes it
        there (C7)."""
        most_prefill = most_run = -1
        for executor in self._fleet:
            blocks, slots = self._fleet.ledger.available(executor.index)
            if slots < 1 or executor.index in barred:
                continue
            if lends and self._placement.lends(executor):
                most_run = max(most_run, blocks)
            if not self._placement.is_fed_less(executor):
                continue
            if self._placement.runs(executor):
                most_run = max(most_run, blocks)
            elif blocks > most_prefill and self._placement.is_paired(executor):
                most_prefill = blocks
        ready = self.arrivals.ready
        found = [ready.first_fit(most_prefill, UNBOUNDED, after), ready.first_fit(UNBOUNDED, most_run, after)]
        fitting = [waiting for handle in found if (waiting := self.arrivals.get(handle)) is not None]
        return min(fitting, key=lambda waiting: waiting.key) if fitting else None

    def _try_place(self, waiting: Waiting | None, barred: Collection[int]) -> bool:
        """Whether it is in line no more: placed, or better off waiting for its prefix."""
        if waiting is None:
            return False  # pragma: no cover - blocks are collected for the first arrival alone
        choice = self._placement.choose(waiting, barred, len(self.arrivals) - self.arrivals.num_aside - 1)
        if choice is None:
            return False
        executor, why = choice
        if self.prefixes.holds_back(waiting, executor, barred, self._now):
            return True
        head = self.arrivals.first()
        if head is not None and head is not waiting and head.passed_at is None:
            head.passed_at = self._now
        self.arrivals.take(waiting)
        waiting.passed_at = None
        self.num_placed += 1
        self.num_by_reason[why] += 1
        self.waits.placed(waiting, self._now)
        num_tokens = self._placement.uncached(waiting, executor)
        self.prefixes.note_placed(waiting, executor, num_tokens, self._now)
        executor.num_pending_tokens += num_tokens
        executor.num_placed_tokens += num_tokens
        if why is PlacementReason.PD:
            self._prefill(waiting, executor)
        else:
            self._run(waiting, executor, why)
        return True

    def _run(self, waiting: Waiting, executor: Executor, why: PlacementReason) -> None:
        submit = waiting.submit
        blocks = executor.demand(submit.work).decode_blocks
        self._spend(executor, blocks, submit.work.num_choices)
        executor.num_attempts += 1
        placed = Placed(submit.id, submit.work.router, executor.life, executor.life, why, waiting.waited_ms)
        self.placed.add(placed)
        head = self.handoffs.due.first()
        if head is not None and head.passed_at is None and why is not PlacementReason.UNIFIED:
            head.passed_at = self._now  # it may need what this takes
        self._say(executor.life, m.Run(*self._asked(waiting, executor, blocks)))
        self.waits.has_decode(waiting, self._now, why.value)
        self._tell_router(placed)

    def _prefill(self, waiting: Waiting, executor: Executor) -> None:
        submit = waiting.submit
        blocks = executor.demand(submit.work).prefill_blocks
        self._spend(executor, blocks, 1)
        waiting.prefill = executor.life
        placed = Placed(submit.id, submit.work.router, executor.life, None, PlacementReason.PD, waiting.waited_ms)
        self.placed.add(placed)
        self.handoffs.add(waiting)
        self._say(executor.life, m.Prefill(*self._asked(waiting, executor, blocks)))
        if not self._try_hand_off(waiting, self._collecting_decode(), is_due=False):
            self._tell_router(placed)

    # ---- prompts that wait for a decode executor

    def _hand_off_due(self) -> None:
        """In order, but for memory, as with arrivals."""
        queue = self.handoffs.due
        barred = self._collecting_decode()
        while barred and self._try_hand_off(queue.first(), ()):
            barred = self._collecting_decode()
        after = queue.ready.first() if barred else -1
        while len(queue):
            waiting = queue.get(queue.ready.first_fit(UNBOUNDED, self._most_decode(barred, False), after))
            if waiting is None:
                return
            if not self._try_hand_off(waiting, barred):
                if self._lacks_slots_alone(waiting):
                    return
                after = waiting.handle

    def _hand_off_early(self) -> None:
        """Before they are due: so that chunks stream, but never the room that others may need first."""
        queue, after, barred = self.handoffs.early, -1, self._collecting_decode()
        while len(queue):
            waiting = queue.get(queue.ready.first_fit(UNBOUNDED, self._most_decode(barred, True), after))
            if waiting is None:
                return
            if not self._try_hand_off(waiting, barred, is_due=False):
                if self._lacks_slots_alone(waiting):
                    return
                after = waiting.handle

    def _lacks_slots_alone(self, waiting: Waiting) -> bool:
        prefill = self._prefill_of(waiting)
        return prefill is not None and self._placement.lacks_slots_alone(
            waiting, self._placement.partners(waiting, prefill)
        )

    def _most_decode(self, barred: Collection[int], leaves_slack: bool) -> int:
        """The most blocks that any one decode executor can give."""
        most = -1
        for executor in self._fleet:
            if executor.pairs and executor.can_decode and executor.index not in barred:
                kept = self._placement.slack(executor) if leaves_slack else 0
                most = max(most, self._placement.room(executor) - kept)
        return most

    def _try_hand_off(self, waiting: Waiting | None, barred: Collection[int], is_due: bool = True) -> bool:
        prefill = None if waiting is None else self._prefill_of(waiting)
        if waiting is None or prefill is None:
            return False  # pragma: no cover - blocks are collected for the first; without its executor it sleeps
        decode = self._placement.choose_decode(waiting, prefill, barred, is_due)
        if decode is None:
            return False
        head = self.handoffs.due.first()
        if head is not None and head is not waiting and head.passed_at is None:
            head.passed_at = self._now
        work_id, work = waiting.submit.id, waiting.submit.work
        self.handoffs.remove(work_id)
        blocks = decode.demand(work).decode_blocks
        self._spend(decode, blocks, work.num_choices)
        decode.num_attempts += 1
        placed = self.placed.hand_over(work_id, decode.life)
        message = m.Decode(work_id, work, waiting.order, prefill.life, blocks, self._left_ms(waiting))
        self._say(decode.life, message)
        self.waits.has_decode(waiting, self._now, placed.why.value)
        self._tell_router(placed)
        return True

    def _prefill_of(self, waiting: Waiting) -> Executor | None:
        """Who computes it, while its session is up."""
        if waiting.prefill is None:
            return None  # pragma: no cover - whoever is in these queues was placed
        executor = self._fleet.get(waiting.prefill.name)
        return executor if executor is not None and executor.life == waiting.prefill else None

    # ---- collecting freed blocks for an overdue head

    def _collecting(self) -> set[int]:
        """Who collects for the first arrival."""
        head = self.arrivals.first()
        if head is None or not self._is_overdue(head):
            return set()
        return self._largest(self._placement.able_to_hold(head))

    def _collecting_decode(self) -> set[int]:
        """Who collects for the first prompt that is due: it has its prefill executor's blocks already."""
        head = self.handoffs.due.first()
        prefill = None if head is None else self._prefill_of(head)
        if head is None or prefill is None or not self._is_overdue(head):
            return set()
        return self._largest(self._placement.partners(head, prefill))

    def _is_overdue(self, head: Waiting) -> bool:
        """Whether nobody may pass it any more."""
        if not self._config.bypass_s:
            return True
        return head.passed_at is not None and self._now - head.passed_at >= self._config.bypass_s

    def _largest(self, pool: list[Executor]) -> set[int]:
        """The one that lacks least, as a set of its index."""
        return {max(pool, key=lambda e: (self._placement.room(e), e.peer.name)).index} if pool else set()

    # ---- spending and saying

    def _spend(self, executor: Executor, num_blocks: int, num_slots: int) -> None:
        if not self._fleet.ledger.try_spend(executor.index, num_blocks, num_slots):
            raise InvariantViolated(f"{executor.peer.name} was chosen without its credit")

    def _left_ms(self, waiting: Waiting) -> int:
        return max(1, int((waiting.deadline - self._now) * 1000))

    def _asked(self, waiting: Waiting, executor: Executor, num_blocks: int) -> tuple[Any, ...]:
        """What whoever computes its prompt is told."""
        submit = waiting.submit
        num_cached = submit.work.num_tokens - self._placement.uncached(waiting, executor)
        left_ms = self._left_ms(waiting)
        return (submit.id, submit.work, waiting.order, num_blocks, left_ms, num_cached, waiting.waited_ms)

    def _tell_router(self, placed: Placed) -> None:
        self._say(placed.router, placed.message())

    def _say(self, life: Life, message: Any) -> None:
        self._said.append((life, message))
