"""Which executors serve a request: the ones that would have its prompt computed first, with room for all of it now."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.queue import Waiting


class Place(NamedTuple):
    """Where a request goes; one executor twice when it does both."""

    prefill: Executor
    decode: Executor


class Placement:
    """Chooses by least predicted time. The unit is prompt tokens to compute until this one is done."""

    def __init__(self, fleet: Fleet, steps_ahead: float) -> None:
        self._fleet = fleet
        self._steps_ahead = steps_ahead

    def choose(self, waiting: Waiting, barred: Collection[int]) -> Place | None:
        """The best place that has room now, or None. `barred` executors collect blocks for somebody else."""
        usable = [e for e in self._fleet if e.index not in barred]
        best: tuple[tuple[float, float, str], Place] | None = None
        for prefill in usable:
            if not self.is_fed_less(prefill):
                continue
            place = self._place_on(waiting, prefill, usable)
            if place is None:
                continue
            key = (self._predicted_tokens(waiting, prefill), self._load(place.decode), prefill.peer.name)
            if best is None or key < best[0]:
                best = (key, place)
        return None if best is None else best[1]

    def is_fed_less(self, executor: Executor) -> bool:
        """Whether it has less than its steps of work ahead."""
        bound = self._steps_ahead * executor.capacity.token_budget
        return (executor.can_prefill or executor.can_run) and executor.num_pending_tokens < bound

    def _place_on(self, waiting: Waiting, prefill: Executor, usable: list[Executor]) -> Place | None:
        if prefill.can_run:
            return Place(prefill, prefill) if self._has_room(waiting, prefill) else None
        if not self._has(prefill, waiting.demand.prefill_blocks, 1):
            return None
        able = [d for d in usable if d.can_decode and prefill.life in d.pairs and self._has_room(waiting, d)]
        if not able:
            return None
        return Place(prefill, min(able, key=lambda d: (self._load(d), -self._held(waiting, d), d.peer.name)))

    def _has_room(self, waiting: Waiting, decode: Executor) -> bool:
        """Room for what it takes at once, on an executor that could hold it to its last token."""
        work = waiting.submit.work
        demand = decode.demand(work)
        return self._has(decode, demand.decode_blocks, demand.num_slots) and decode.fits_empty(work)

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
