"""Which executors serve a request: the one that would have its prompt computed first, and where it decodes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from baton.core.config import SchedulerConfig
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.queue import Waiting


class Placement:
    """Chooses by least predicted time. The unit is prompt tokens to compute until this one is done.

    `barred` executors collect blocks for somebody else.
    """

    def __init__(self, fleet: Fleet, config: SchedulerConfig) -> None:
        self._fleet = fleet
        self._config = config

    def choose(self, waiting: Waiting, barred: Collection[int]) -> Executor | None:
        """Who computes the prompt: one with room for it now, where it can also decode, now or later. One that both
        prefills and decodes has room for all of it. Those that some decode executor has room beside come first."""
        best: tuple[tuple[Any, ...], Executor] | None = None
        for executor in self._fleet:
            if executor.index in barred or not self.is_fed_less(executor) or not self._takes(waiting, executor):
                continue
            decodes_now = executor.can_run or self._any_has_room(waiting, executor)
            time = self._predicted_tokens(waiting, executor)
            key = (not decodes_now, time, self._load(executor), executor.peer.name)
            if best is None or key < best[0]:
                best = (key, executor)
        return None if best is None else best[1]

    def choose_decode(
        self, waiting: Waiting, prefill: Executor, barred: Collection[int], is_due: bool
    ) -> Executor | None:
        """Where it decodes, with room for all of it now; before it is due only where room is left for others."""
        able = [d for d in self.partners(waiting, prefill) if d.index not in barred and self._has_room(d, waiting)]
        if not is_due:
            able = [d for d in able if self._needs(d, waiting) <= self.room(d) - self.slack(d)]
        if not able:
            return None
        return min(able, key=lambda d: (self._load(d), -self._held(waiting, d), d.peer.name))

    def is_fed_less(self, executor: Executor) -> bool:
        """Whether it has less than its steps of work ahead."""
        bound = self._config.steps_ahead * executor.capacity.token_budget
        return (executor.can_prefill or executor.can_run) and executor.num_pending_tokens < bound

    def is_paired(self, prefill: Executor) -> bool:
        """Whether anybody could decode what it computes."""
        return any(d.can_decode and prefill.life in d.pairs for d in self._fleet)

    def partners(self, waiting: Waiting, prefill: Executor) -> list[Executor]:
        """Who could receive it from there and hold it to its last token, if they held nothing else."""
        work = waiting.submit.work
        return [d for d in self._fleet if d.can_decode and prefill.life in d.pairs and d.fits_empty(work)]

    def able_to_hold(self, waiting: Waiting) -> list[Executor]:
        """Who could compute its prompt if they held nothing else, where somebody could decode it."""
        takes = [e for e in self._fleet if (e.can_prefill or e.can_run) and e.fits_empty(waiting.submit.work)]
        return [e for e in takes if e.can_run or self.partners(waiting, e)]

    def lacks_slots_alone(self, waiting: Waiting, pool: list[Executor]) -> bool:
        """Whether somebody in the pool has blocks enough for it and not the slots (C7: that ends a walk)."""
        num_slots = waiting.submit.work.num_choices
        return any(self._needs(e, waiting) <= self.room(e) and not self._has(e, 0, num_slots) for e in pool)

    def room(self, executor: Executor) -> int:
        """Blocks that it has now."""
        return int(self._fleet.ledger.available(executor.index)[0])

    def slack(self, executor: Executor) -> int:
        """Blocks that a reservation before its time must leave free there."""
        return int(self._config.handoff_slack * executor.capacity.num_blocks)

    # ---- inside

    def _takes(self, waiting: Waiting, executor: Executor) -> bool:
        if executor.can_run:
            return self._has_room(executor, waiting) and executor.fits_empty(waiting.submit.work)
        return self._has(executor, waiting.demand.prefill_blocks, 1) and bool(self.partners(waiting, executor))

    def _any_has_room(self, waiting: Waiting, prefill: Executor) -> bool:
        return any(self._has_room(d, waiting) for d in self.partners(waiting, prefill))

    def _needs(self, decode: Executor, waiting: Waiting) -> int:
        return decode.demand(waiting.submit.work).decode_blocks

    def _has_room(self, decode: Executor, waiting: Waiting) -> bool:
        """Room for what it takes at once."""
        return self._has(decode, self._needs(decode, waiting), waiting.submit.work.num_choices)

    def _has(self, executor: Executor, num_blocks: int, num_slots: int) -> bool:
        blocks, slots = self._fleet.ledger.available(executor.index)
        return bool(blocks >= num_blocks and slots >= num_slots)

    def _held(self, waiting: Waiting, executor: Executor) -> int:
        return self._fleet.directory.num_held(executor.index, waiting.submit.work.hashes)

    def _predicted_tokens(self, waiting: Waiting, executor: Executor) -> float:
        cached = self._held(waiting, executor) * executor.capacity.block_size
        return executor.num_pending_tokens + max(1, waiting.submit.work.num_tokens - cached)

    def _load(self, executor: Executor) -> float:
        return executor.num_attempts / executor.capacity.num_slots
