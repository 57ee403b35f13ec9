"""What routers are still to be told: one outbox for each, merged by request, so that no step waits for a reader.

Bounded by the requests' `max_tokens`, and by the scores of their prompts: each token of each choice is here once. A
token that brings nothing else is a row; what follows a record of its choice that is unsent goes with that record, so
rows can always be told before records.
"""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Send
from baton.core.executor.steps import PromptScores, SampledToken
from baton.core.ids import AttemptId, Life
from baton.core.wire.messages import AttemptFailed, Record, Records
from baton.core.wire.tokens import ROW, pack_rows


class _Entry:
    __slots__ = ("finish", "num_cached", "offset", "prompt_scores", "tokens")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.tokens: list[SampledToken] = []
        self.finish = ""
        self.num_cached = -1
        self.prompt_scores: PromptScores | None = None

    def record(self, work_id: AttemptId, choice: int) -> Record:
        tokens = tuple(self.tokens)
        return Record(work_id, choice, self.offset, tokens, self.finish, self.num_cached, self.prompt_scores)


class _Box:
    __slots__ = ("entries", "failures", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []  #: as in `TokenRows`
        self.entries: dict[tuple[AttemptId, int], _Entry] = {}
        self.failures: list[AttemptFailed] = []

    def take_rows(self, work_id: AttemptId, choice: int | None = None) -> None:
        """Forget the rows of one choice, or of all choices of the attempt."""
        kept: list[int] = []
        for begin in range(0, len(self.rows), ROW):
            row = self.rows[begin : begin + ROW]
            if (row[0], row[1]) != work_id or choice not in (None, row[2]):
                kept += row
        self.rows = kept


class Outbox:
    """Unsent records and failures, by the router's life."""

    def __init__(self) -> None:
        self._boxes: dict[Life, _Box] = {}

    def begin(self, router: Life, record: Record) -> None:
        """Say this record in place of what is unsent of its choice: it is the attempt's first, or the last session may
        have lost some."""
        box = self._box(router)
        box.take_rows(record.id, record.choice)
        entry = box.entries[record.id, record.choice] = _Entry(record.offset)
        entry.tokens += record.tokens
        entry.finish = record.finish
        entry.num_cached = record.num_cached_tokens
        entry.prompt_scores = record.prompt_scores

    def rows(self, router: Life) -> list[int] | None:
        """Where tokens that bring nothing else may be added as they are told, until something else is said here; None
        while something else is unsent."""
        box = self._box(router)
        return None if box.entries else box.rows

    def add_token(
        self, router: Life, work_id: AttemptId, choice: int, offset: int, sampled: SampledToken, finish: str
    ) -> None:
        """Say one more token of a choice after what is unsent of it."""
        box = self._boxes.get(router) or self._box(router)
        entry = box.entries.get((work_id, choice)) if box.entries else None
        if entry is None:
            if not finish and sampled.logprobs is None:
                request_id, attempt = work_id
                box.rows += (request_id, attempt, choice, offset, sampled.token)
                return
            entry = box.entries[work_id, choice] = _Entry(offset)
        entry.tokens.append(sampled)
        entry.finish = finish

    def fail(self, router: Life, work_id: AttemptId, reason: Reason, detail: str) -> None:
        """The attempt is over without an end; told after its last tokens."""
        self._box(router).failures.append(AttemptFailed(work_id, reason, detail))

    def flush(self, router: Life) -> list[Send]:
        """Everything for this router as commands; the box is empty then."""
        box = self._boxes.pop(router, None)
        if box is None:
            return []
        records = [entry.record(*key) for key, entry in box.entries.items()]
        alone = [record for record in records if record.prompt_scores is not None]  # two might be too much for a frame
        merged = tuple([record for record in records if record.prompt_scores is None])
        out = [Send(router.name, Records((record,))) for record in alone]
        if merged or box.rows:
            out.append(Send(router.name, Records(merged, pack_rows(box.rows))))
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
        box.take_rows(work_id)
        for key in [key for key in box.entries if key[0] == work_id]:
            del box.entries[key]
        box.failures = [failure for failure in box.failures if failure.id != work_id]
        if not box.rows and not box.entries and not box.failures:
            del self._boxes[router]

    def _box(self, router: Life) -> _Box:
        box = self._boxes.get(router)
        if box is None:
            box = self._boxes[router] = _Box()
        return box
