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
        prefills and decodes has room for all of it. Those where nothing waits for a decode executor come first."""
        best: tuple[tuple[Any, ...], Executor] | None = None
        for executor in self._fleet:
            if executor.index in barred or not self.is_fed_less(executor) or not self._takes(waiting, executor):
                continue
            decodes_now = executor.can_run or bool(self._decoders(waiting, executor, barred))
            time = self._predicted_tokens(waiting, executor)
            key = (not decodes_now, time, self._load(executor), executor.peer.name)
            if best is None or key < best[0]:
                best = (key, executor)
        return None if best is None else best[1]

    def choose_decode(self, waiting: Waiting, prefill: Executor, barred: Collection[int]) -> Executor | None:
        """Where it decodes, with room for all of it now. Before it is due only where room is left for others."""
        able = self._decoders(waiting, prefill, barred)
        if not self.is_due(waiting, prefill):
            able = [d for d in able if self._has_slack(waiting, d)]
        if not able:
            return None
        return min(able, key=lambda d: (self._load(d), -self._held(waiting, d), d.peer.name))

    def is_fed_less(self, executor: Executor) -> bool:
        """Whether it has less than its steps of work ahead."""
        bound = self._config.steps_ahead * executor.capacity.token_budget
        return (executor.can_prefill or executor.can_run) and executor.num_pending_tokens < bound

    def due_at(self, prefill: Executor) -> int:
        """For a prompt that was placed there last: tokens done from which on it is due."""
        lead = int(self._config.handoff_lead_steps * prefill.capacity.token_budget)
        return prefill.num_done_tokens + max(0, prefill.num_pending_tokens - lead)

    def is_due(self, waiting: Waiting, prefill: Executor) -> bool:
        """Whether its prompt will be computed within the lead."""
        return prefill.num_done_tokens >= waiting.due_at

    def can_decode_somewhere(self, waiting: Waiting, prefill: Executor) -> bool:
        """Whether some decode executor that is paired with this one could hold it to its last token."""
        return any(self._could_decode(waiting, prefill, d) for d in self._fleet)

    def able_to_hold(self, waiting: Waiting) -> list[Executor]:
        """Executors that could compute its prompt if they held nothing else."""
        work = waiting.submit.work
        takes = [e for e in self._fleet if (e.can_prefill or e.can_run) and e.fits_empty(work)]
        return [e for e in takes if e.can_run or self.can_decode_somewhere(waiting, e)]

    def able_to_decode(self, waiting: Waiting, prefill: Executor) -> list[Executor]:
        """Executors that could receive and decode it if they held nothing else."""
        return [d for d in self._fleet if self._could_decode(waiting, prefill, d)]

    # ---- inside

    def _takes(self, waiting: Waiting, executor: Executor) -> bool:
        if executor.can_run:
            return self._has_room(waiting, executor) and executor.fits_empty(waiting.submit.work)
        return self._has(executor, waiting.demand.prefill_blocks, 1) and self.can_decode_somewhere(waiting, executor)

    def _decoders(self, waiting: Waiting, prefill: Executor, barred: Collection[int]) -> list[Executor]:
        able = self.able_to_decode(waiting, prefill)
        return [d for d in able if d.index not in barred and self._has_room(waiting, d)]

    def _could_decode(self, waiting: Waiting, prefill: Executor, decode: Executor) -> bool:
        """Whether it can receive from there, and hold the request to its last token."""
        return decode.can_decode and prefill.life in decode.pairs and decode.fits_empty(waiting.submit.work)

    def _has_room(self, waiting: Waiting, decode: Executor) -> bool:
        """Room for what it takes at once."""
        demand = decode.demand(waiting.submit.work)
        return self._has(decode, demand.decode_blocks, demand.num_slots)

    def _has_slack(self, waiting: Waiting, decode: Executor) -> bool:
        left = self._config.handoff_slack * decode.capacity.num_blocks
        return self._has(decode, decode.demand(waiting.submit.work).decode_blocks + int(left), 1)

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
