"""What the executor's threads say to its loop: one wake-up for all that was said while the loop was busy."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from baton.core.executor.events import ThreadEvent


class Reports:
    """`say` may be called from any thread; `post` is called on the loop's, with each event once and in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, post: Callable[[ThreadEvent], None]) -> None:
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
        for _ in range(len(self._said)):
            self._post(self._said.popleft())
