"""What the executor's threads say to its loop: what has come while the loop was busy is one event, and one turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from baton.core.executor.events import Several, ThreadEvent


class Reports:
    """`say` may be called from any thread; `post` is called on the loop's, with each event once and in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, post: Callable[[ThreadEvent | Several], None]) -> None:
        self._loop = loop
        self._post = post
        self._said: deque[ThreadEvent] = deque()
        self._is_due = False

    def say(self, event: ThreadEvent) -> None:
        """Raises RuntimeError when the loop has been closed."""
        self._said.append(event)
        if not self._is_due:  # else whoever takes them has not begun: it clears the mark before it looks
            self._is_due = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_due = False
        events = [self._said.popleft() for _ in range(len(self._said))]
        if len(events) > 1:
            self._post(Several(tuple(events)))
        elif events:
            self._post(events[0])
