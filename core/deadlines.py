"""Deadlines of many requests: the earliest is known at once, ended ones leave lazily."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K", bound=tuple[int, ...] | int)


class Deadlines(Generic[K]):
    """A heap of (time, key). The owner says which keys still matter."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, K]] = []

    def push(self, at: float, key: K) -> None:
        heapq.heappush(self._heap, (at, key))

    @property
    def first(self) -> float | None:
        """The earliest time, perhaps of a key that no longer matters."""
        return self._heap[0][0] if self._heap else None

    def first_of(self, matters: Callable[[K], bool]) -> float | None:
        """The earliest time of a key that matters; earlier ones of others are forgotten."""
        while self._heap and not matters(self._heap[0][1]):
            heapq.heappop(self._heap)
        return self.first

    def due(self, now: float) -> list[K]:
        """Keys whose time has come, earliest first; each is returned once."""
        out: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            out.append(heapq.heappop(self._heap)[1])
        return out
