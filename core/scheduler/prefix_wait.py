"""Waiting for a prefix that is being computed: who waits, on what, until when.

Whoever waits holds no block, slot or reservation anywhere: it was not placed. It hangs on the one block hash that it
needs (its anchor), or on an executor that holds its prefix and has work enough ahead; it is in no ready queue meanwhile
and nobody visits it. It keeps its place: back in the queue it stands where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from baton.core.config import SchedulerConfig
from baton.core.deadlines import Deadlines
from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Span
from baton.core.ids import AttemptId, Life
from baton.core.kv.ready_queue import ReadyQueue
from baton.core.layout import anchor_of
from baton.core.scheduler.directory import HASH_BYTES
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.placement import Placement
from baton.core.scheduler.producers import Producers, hash_at
from baton.core.scheduler.queue import ArrivalQueue, Patience, Waiting
from baton.core.wire.messages import Work


class PrefixWait:
    """The waits of one scheduler. What it sets aside or brings back moves in the arrival queue in the same turn."""

    def __init__(self, fleet: Fleet, placement: Placement, arrivals: ArrivalQueue, config: SchedulerConfig) -> None:
        self.producers = Producers()
        self.counters: dict[str, int] = {}
        self._fleet = fleet
        self._placement = placement
        self._arrivals = arrivals
        self._is_on = config.prefix_wait
        self._max_s = config.prefix_wait_max_ms / 1000
        self._on_hash: dict[int, dict[bytes, ReadyQueue]] = {}  #: by executor and by the hash that they need
        self._on_executor: dict[int, ReadyQueue] = {}  #: until it has less work ahead
        self._deadlines: Deadlines[int] = Deadlines()
        self._told: list[Span] = []

    def note_placed(self, waiting: Waiting, executor: Executor, num_tokens: int, now: float) -> None:
        """It goes there now, with so many tokens to compute that do not count there yet: from now on others may wait
        for what it computes."""
        if not self._is_on:
            return
        patience, work = waiting.patience, waiting.submit.work
        held = self._held(waiting, executor)
        if patience is not None and held > patience.num_held:
            self._count("prefix_wait_tokens_saved", (held - patience.num_held) * executor.capacity.block_size)
        if held and work.wants_prompt_scores:
            return  # it computes blocks that lie there already, so that its chain is published no further
        end = num_full_blocks(work, executor.capacity.block_size)
        self.producers.add(waiting.submit.id, executor, work.hashes, (held, end), num_tokens, now)

    def holds_back(self, waiting: Waiting, executor: Executor, barred: Collection[int], now: float) -> bool:
        """Whether it is better off waiting than going to that executor now; if so it has been set aside."""
        if not self._is_on or not may_wait(waiting):
            return False
        make_queue = self._best_wait(waiting, executor, barred, now)
        if make_queue is None:
            return False
        patience = waiting.patience
        if patience is None:
            self._count("prefix_waits_begun")
            patience = Patience(now + self._left_s(waiting, now), self._held(waiting, executor))
            waiting.patience = patience
        self._count(f"wait_{Reason.PREFIX_WAIT.name.lower()}")
        patience.since = now
        waiting.reason = Reason.PREFIX_WAIT
        self._deadlines.push(patience.until, waiting.handle)
        self._arrivals.set_aside(waiting, make_queue())
        return True

    def feed(self, now: float) -> None:
        """Executors that have room for more work ahead get back as many of those that wait for that as fill it."""
        if not self._on_executor:
            return
        for executor in self._fleet:
            queue = self._on_executor.get(executor.index)
            room = 0 if queue is None else self._placement.num_lacking(executor)
            while queue is not None and len(queue) and room > 0:
                waiting = self._arrivals.at(queue.first())
                room -= self._placement.uncached(waiting, executor)
                self._bring_back(waiting, "served", now)
            if queue is not None and not len(queue):
                del self._on_executor[executor.index]

    def on_published(self, executor: Executor, hashes: bytes, now: float) -> None:
        """P8: whoever needs these blocks goes on, wherever their producer stands."""
        published = self.producers.published(executor.index, hashes)
        self._release(executor.index, published, "served", now)

    def on_ended(self, work_id: AttemptId, now: float) -> None:
        """P5: it publishes nothing any more. Its waiters are demand in this turn."""
        index, lost = self.producers.end(work_id)
        self._release(index, lost, "lost", now)

    def on_executor_ended(self, index: int, now: float) -> None:
        """Nobody can go to that executor any more."""
        self._on_none(index, now)
        waiting_for_it = self._on_executor.pop(index, None)
        if waiting_for_it is not None:
            self._bring_back_all(waiting_for_it, "lost", now)

    def on_pair_lost(self, life: Life, now: float) -> None:
        """Who waits for an executor that nobody could decode from waits in vain."""
        executor = self._fleet.get(life.name)
        if executor is not None and executor.can_prefill and not self._placement.is_paired(executor):
            self.on_executor_ended(executor.index, now)

    def on_all_computed(self, executor: Executor, now: float) -> None:
        """It has computed all that was placed there and has published what it will: what is missing never comes."""
        if self.producers.any_on(executor.index):
            self._on_none(executor.index, now)

    def expire(self, now: float) -> None:
        """Whose own deadline has come is demand again, and waits no more."""
        for handle in self._deadlines.due(now):
            if self._arrivals.is_aside(handle):
                self._bring_back(self._arrivals.at(handle), "given_up", now)

    def next_decision(self) -> float | None:
        """C28: until when whoever waits longest is held back at most."""
        return self._deadlines.first_of(self._arrivals.is_aside)

    def counted(self) -> dict[str, int]:
        """All counters by name."""
        return self.counters | {"prefix_waits_left": self._arrivals.num_left_aside}

    def take(self) -> list[Span]:
        """The waits that ended since the last time."""
        told, self._told = self._told, []
        return told

    def check_invariants(self, now: float) -> None:
        """Raises InvariantViolated when somebody waits too long, for nobody, or in two places."""
        self.producers.check_invariants()
        queues = [q for queues in self._on_hash.values() for q in queues.values()]
        handles = [h for queue in (*queues, *self._on_executor.values()) for h in queue.handles()]
        if sorted(handles) != self._arrivals.handles_aside():
            raise InvariantViolated("those set aside and those that wait for a prefix differ")
        for index, by_hash in self._on_hash.items():
            if any(len(q) and self.producers.of(index, block_hash) is None for block_hash, q in by_hash.items()):
                raise InvariantViolated("somebody waits for a block that nobody computes")
        first = self.next_decision()
        if first is not None and first <= now:
            raise InvariantViolated("somebody waits beyond its deadline")

    # ---- inside

    def _best_wait(
        self, waiting: Waiting, executor: Executor, barred: Collection[int], now: float
    ) -> Callable[[], ReadyQueue] | None:
        """In which queue it waits, if somebody would have its prompt computed sooner after a wait than this executor
        that can take it now (P2, P15), and it may still wait."""
        queued, held = executor.num_pending_tokens, self._held(waiting, executor)
        best, queue, refused = self._placement.cost(waiting, executor, queued, held), None, ""
        for other in self._fleet:
            if other.index in barred:
                continue
            option = self._after_publication(waiting, other, executor, now)
            option = option or self._after_queue(waiting, other, executor)
            if option is None:
                continue
            cost, reason, make_queue = option
            if reason or cost >= best:
                refused = refused or reason or "slow"
            else:
                best, queue = cost, make_queue
        if queue is not None and self._left_s(waiting, now) <= 0:
            queue, refused = None, "spent"
        if queue is None and refused:
            self._count(f"prefix_wait_refused_{refused}")
        return queue

    def _left_s(self, waiting: Waiting, now: float) -> float:
        """How long it may still wait: until the end that was fixed when it first did (P3, P10)."""
        if waiting.patience is not None:
            return waiting.patience.until - now
        return self._max_s - waiting.submit.waited_ms / 1000

    def _after_publication(self, waiting: Waiting, other: Executor, executor: Executor, now: float) -> Option | None:
        """Its blocks are published there and it goes there then, behind what is left of their producer (P1, P2)."""
        if not self.producers.any_on(other.index):
            return None
        work, size = waiting.submit.work, other.capacity.block_size
        held = self._fleet.directory.num_held(other.index, work.hashes)
        depth = self.producers.depth(other.index, work.hashes, held, num_full_blocks(work, size))
        anchor = anchor_of(depth, other.capacity.checkpoint_blocks)
        if anchor <= held:
            return None
        block_hash = hash_at(work.hashes, anchor - 1)
        producer = self.producers.of(other.index, block_hash)
        if producer is None or not self._placement.is_no_worse(waiting, other, executor):
            return None
        if now - max(producer.placed_at, other.progressed_at) > self._max_s:
            return Option(0.0, "stale", None)
        num_missing = other.num_ahead(producer.token_at(anchor, size))
        if self._placement.compute_s(other, num_missing) > self._left_s(waiting, now):
            return Option(0.0, "slow", None)
        ahead = other.num_ahead(producer.end_token)
        cost = self._placement.cost(waiting, other, ahead, anchor) + self._placement.step_cost(other)
        return Option(cost, "", lambda: self._queue_for(other, block_hash))

    def _after_queue(self, waiting: Waiting, other: Executor, executor: Executor) -> Option | None:
        """It goes where its prefix lies already, once that executor has less work ahead (P15)."""
        held = self._held(waiting, other)
        if held <= self._held(waiting, executor) or self._placement.num_lacking(other) > 0:
            return None
        if not self._placement.is_no_worse(waiting, other, executor):
            return None
        cost = self._placement.cost(waiting, other, other.num_pending_tokens, held)
        return Option(cost, "", lambda: self._on_executor.setdefault(other.index, ReadyQueue()))

    def _on_none(self, index: int, now: float) -> None:
        """Nothing that is computed there will be published."""
        self.producers.end_all(index)
        for queue in self._on_hash.pop(index, {}).values():
            self._bring_back_all(queue, "lost", now)

    def _release(self, index: int, hashes: list[bytes], how: str, now: float) -> None:
        """Whoever waits for one of these blocks of that executor waits no more."""
        queues = self._on_hash.get(index)
        if not queues:
            return
        for block_hash in [block_hash for block_hash in hashes if block_hash in queues]:
            self._bring_back_all(queues.pop(block_hash), how, now)

    def _queue_for(self, executor: Executor, block_hash: bytes) -> ReadyQueue:
        return self._on_hash.setdefault(executor.index, {}).setdefault(block_hash, ReadyQueue())

    def _bring_back_all(self, queue: ReadyQueue, how: str, now: float) -> None:
        for handle in queue.handles():
            self._bring_back(self._arrivals.at(handle), how, now)

    def _bring_back(self, waiting: Waiting, how: str, now: float) -> None:
        """It is demand again, in its old place."""
        patience = waiting.patience
        if patience is None:
            raise InvariantViolated(f"{waiting.submit.id} was set aside without a deadline")
        patience.waited_s += now - patience.since
        self._arrivals.bring_back(waiting)
        self._count(f"prefix_waits_{how}")
        work_id = waiting.submit.id
        span = Span("prefix wait", patience.since, now, Reason.PREFIX_WAIT, patience.until, how, *work_id)
        self._told.append(span)

    def _held(self, waiting: Waiting, executor: Executor) -> int:
        """Leading blocks there from whose end it could go on."""
        held = self._fleet.directory.num_held(executor.index, waiting.submit.work.hashes)
        return anchor_of(held, executor.capacity.checkpoint_blocks)

    def _count(self, name: str, number: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + number


class Option(NamedTuple):
    """A wait that would be possible."""

    cost: float  #: until its prompt would be computed, as `Placement.cost` counts
    refused: str  #: why not, if it is out of the question
    make_queue: Callable[[], ReadyQueue] | None


def may_wait(waiting: Waiting) -> bool:
    """Whether it could use what others compute. P4: whoever is asked has no prefill executor yet, so that its KV comes
    from nowhere else; a handed-off prompt is in another queue, and nobody asks it. A prompt whose tokens are to be
    scored computes all of them. What is cached of it, and how often it was preempted, are no reason."""
    return not waiting.submit.work.wants_prompt_scores


def num_full_blocks(work: Work, block_size: int) -> int:
    """Leading blocks that a prompt can share: full ones before its last token, which is always computed."""
    return min(len(work.hashes) // HASH_BYTES, (work.num_tokens - 1) // block_size)
