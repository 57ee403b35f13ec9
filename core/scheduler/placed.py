"""Attempts that were placed and whose executors have not said that they ended."""

from __future__ import annotations

from baton.core.ids import AttemptId, Life
from baton.core.wire import messages as m
from baton.core.wire.placement import PlacementReason


class Placed:
    """One placed attempt; `holders` are the executors that may still hold something of it."""

    __slots__ = ("decode", "holders", "id", "prefill", "router", "waited_ms", "why")

    def __init__(
        self, work_id: AttemptId, router: Life, prefill: Life, decode: Life | None, why: PlacementReason, waited_ms: int
    ) -> None:
        self.id = work_id
        self.router = router
        self.prefill = prefill
        self.decode = decode  #: None until one is reserved
        self.holders = [prefill]
        self.why = why
        self.waited_ms = waited_ms  #: its request, for prefixes

    def message(self) -> m.Placed:
        """As its router is told."""
        return m.Placed(self.id, self.prefill, self.decode, self.why, self.waited_ms)


class PlacedAttempts:
    """By attempt, and by the name of each executor that holds it."""

    def __init__(self) -> None:
        self._by_id: dict[AttemptId, Placed] = {}
        self._by_name: dict[str, dict[AttemptId, Placed]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, work_id: AttemptId) -> Placed | None:
        return self._by_id.get(work_id)

    def add(self, placed: Placed) -> None:
        self._by_id[placed.id] = placed
        for life in placed.holders:
            self._by_name.setdefault(life.name, {})[placed.id] = placed

    def hand_over(self, work_id: AttemptId, decode: Life) -> Placed:
        """A decode executor is reserved for it. Raises KeyError for an attempt that is not placed."""
        placed = self._by_id[work_id]
        placed.decode = decode
        placed.holders.append(decode)
        self._by_name.setdefault(decode.name, {})[work_id] = placed
        return placed

    def end_at(self, work_id: AttemptId, holder: Life) -> Placed | None:
        """That executor holds nothing of it any more; returns it if it did until now."""
        placed = self._by_id.get(work_id)
        if placed is None or holder not in placed.holders:
            return None
        placed.holders.remove(holder)
        if all(other.name != holder.name for other in placed.holders):
            self._by_name[holder.name].pop(work_id, None)
        if not placed.holders:
            del self._by_id[work_id]
        return placed

    def at_name(self, name: str) -> list[Placed]:
        """What any life of that executor may hold."""
        return list(self._by_name.get(name, {}).values())
