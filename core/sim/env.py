"""What every part of the simulated world shares: virtual time, randomness, counters and the way to report a violation.

Time is a heap of (time, sequence number): two events of one moment come in the order in which they were made, so a run
is a function of its seed alone.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

Call = Callable[..., None]


class Violation(Exception):
    """A law of the system was broken in the simulated world. `law` names it, the text tells how."""

    def __init__(self, law: str, text: str) -> None:
        self.law = law
        super().__init__(f"{law}: {text}")


class Timeline:
    """The virtual clock and everything that will happen."""

    __slots__ = ("_heap", "_is_paused", "_sequence", "now")

    def __init__(self) -> None:
        self.now = 0.0  #: virtual seconds
        self._heap: list[tuple[float, int, Call, tuple[Any, ...]]] = []
        self._sequence = 0
        self._is_paused = False

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, call: Call, *args: Any) -> None:
        """Call it at that time; not before now."""
        self._sequence += 1
        heapq.heappush(self._heap, (when if when > self.now else self.now, self._sequence, call, args))

    def after(self, delay_s: float, call: Call, *args: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._sequence, call, args))

    def step(self) -> bool:
        """Let the next thing happen. False: nothing is left."""
        return self.advance(1)

    def advance(self, most: int) -> bool:
        """Let up to so many things happen, fewer if one of them calls `pause`. False: nothing is left."""
        heap, pop = self._heap, heapq.heappop
        self._is_paused = False
        while most > 0 and not self._is_paused:
            if not heap:
                return False
            self.now, _, call, args = pop(heap)
            call(*args)
            most -= 1
        return True

    def pause(self) -> None:
        """What happens now is the last thing before `advance` returns."""
        self._is_paused = True


class Env:
    """One per run. `random` is the only source of chance in the world besides the scenario itself."""

    __slots__ = ("counters", "random", "rng", "time", "trace")

    def __init__(self, seed: int, trace: Callable[[float, str], None] | None = None) -> None:
        self.time = Timeline()
        self.rng = Random(seed)
        self.random = self.rng.random
        self.counters: Counter[str] = Counter()
        self.trace = trace  #: called with (time, line) when a story is wanted

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def fail(self, law: str, text: str) -> None:
        raise Violation(law, f"{text} (at {self.time.now:.6f})")

    def tell(self, line: str) -> None:
        """One line of the run's story; costs nothing when nobody listens."""
        if self.trace is not None:
            self.trace(self.time.now, line)
