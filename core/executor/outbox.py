"""What routers are still to be told: one outbox for each, merged by request, so that no step waits for a reader.

Bounded by the requests' `max_tokens`: an entry is (attempt, choice) and holds each of its tokens once.
"""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Send
from baton.core.executor.steps import SampledToken
from baton.core.ids import AttemptId, Life
from baton.core.wire.messages import AttemptFailed, Record, Records


class _Entry:
    __slots__ = ("finish", "num_cached", "offset", "tokens")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.tokens: list[SampledToken] = []
        self.finish = ""
        self.num_cached = -1


class _Box:
    __slots__ = ("entries", "failures")

    def __init__(self) -> None:
        self.entries: dict[tuple[AttemptId, int], _Entry] = {}
        self.failures: list[AttemptFailed] = []


class Outbox:
    """Unsent records and failures, by the router's life."""

    def __init__(self) -> None:
        self._boxes: dict[Life, _Box] = {}

    def add(
        self, router: Life, work_id: AttemptId, choice: int, offset: int, token: SampledToken, finish: str, cached: int
    ) -> None:
        """One token at `offset` of the client's output; `cached` −1 if it says nothing of the prefix cache."""
        entries = self._box(router).entries
        entry = entries.get((work_id, choice))
        if entry is None:
            entry = entries[work_id, choice] = _Entry(offset)
        entry.tokens.append(token)
        entry.finish = finish
        entry.num_cached = max(entry.num_cached, cached)

    def fail(self, router: Life, work_id: AttemptId, reason: Reason, detail: str) -> None:
        """The attempt is over without an end; told after its last tokens."""
        self._box(router).failures.append(AttemptFailed(work_id, reason, detail))

    def rewind(self, router: Life, record: Record) -> None:
        """Say this record in place of what is unsent of its choice: the last session may have lost some."""
        entry = _Entry(record.offset)
        entry.tokens = list(record.tokens)
        entry.finish = record.finish
        entry.num_cached = record.num_cached_tokens
        self._box(router).entries[record.id, record.choice] = entry

    def flush(self, router: Life) -> list[Send]:
        """Everything for this router as commands; the box is empty then."""
        box = self._boxes.pop(router, None)
        if box is None:
            return []
        records = tuple(
            Record(work_id, choice, entry.offset, tuple(entry.tokens), entry.finish, entry.num_cached)
            for (work_id, choice), entry in box.entries.items()
        )
        out = [Send(router.name, Records(records))] if records else []
        out.extend(Send(router.name, failure) for failure in box.failures)
        return out

    def waiting(self) -> list[Life]:
        """Routers for which something is unsent."""
        return list(self._boxes)

    def forget(self, router: Life) -> None:
        """That life of the router is over: nobody will read it."""
        self._boxes.pop(router, None)

    def drop(self, router: Life, work_id: AttemptId) -> None:
        """The router does not want this attempt any more."""
        box = self._boxes.get(router)
        if box is None:
            return
        for key in [key for key in box.entries if key[0] == work_id]:
            del box.entries[key]
        box.failures = [failure for failure in box.failures if failure.id != work_id]
        if not box.entries and not box.failures:
            del self._boxes[router]

    def _box(self, router: Life) -> _Box:
        box = self._boxes.get(router)
        if box is None:
            box = self._boxes[router] = _Box()
        return box
