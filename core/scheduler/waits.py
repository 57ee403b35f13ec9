"""Why attempts wait, and for how long they did: one reason for each wait (W6), told when it is over.

Only the first in a line is asked, once: whoever stands behind it waits for the same, unless it becomes the first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from baton.core.errors import Reason
from baton.core.events import Note, Span
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.placement import Placement
from baton.core.scheduler.queue import Waiting


class Waits:
    """Collects in `told` what the turn has to say of waits and places."""

    def __init__(self, placement: Placement) -> None:
        self.told: list[Any] = []  #: notes and spans, in order
        self.counters: dict[str, int] = {}  #: by `wait_<reason>`: heads of a line that waited
        self._placement = placement
        self._arrival_reason: Reason | None = None  #: of the last that was first in line
        self._handoff_reason: Reason | None = None

    def for_a_place(self, head: Waiting | None) -> None:
        """The walk is over and this one is first among those that were not placed."""
        if head is not None and head.reason is None:
            self._arrival_reason = head.reason = self._why(head, self._placement.able_to_hold(head), fed=True)

    def for_decode(self, head: Waiting, partners: Collection[Executor]) -> None:
        """The same of computed prompts, for one of which no reason is known: `partners` are those that could decode it
        if they were empty."""
        self._handoff_reason = head.reason = self._why(head, partners, fed=False)

    def placed(self, waiting: Waiting, now: float) -> None:
        """Somebody computes its prompt now."""
        if now > waiting.arrived_at:
            self._tell("placement", waiting, waiting.arrived_at, now, waiting.reason or self._arrival_reason)
        waiting.placed_at = now
        waiting.reason = None

    def has_decode(self, waiting: Waiting, now: float, why: str) -> None:
        """And somebody has all that it needs to its last token: the closing line of the attempt here. `why` its prompt
        is computed where it is (R4)."""
        placed_at = now if waiting.placed_at is None else waiting.placed_at
        if now > placed_at:
            self._tell("hand-off", waiting, placed_at, now, waiting.reason or self._handoff_reason)
        stages = {"placed": placed_at, "handed_over": now}
        numbers = {f"{stage}_ms": (at - waiting.arrived_at) * 1e3 for stage, at in stages.items()}
        self.told.append(line(waiting, numbers, "placed", why))

    def take(self) -> list[Any]:
        """What was collected since the last time."""
        told, self.told = self.told, []
        return told

    def _tell(self, what: str, waiting: Waiting, since: float, now: float, reason: Reason | None) -> None:
        work_id = waiting.submit.id
        self.told.append(Span(what, since, now, reason, 0.0, "", work_id.request_id, work_id.attempt))

    def _why(self, head: Waiting, able: Collection[Executor], fed: bool) -> Reason:
        reason = self._placement.why_not(head, able, fed)
        name = f"wait_{reason.name.lower()}"
        self.counters[name] = self.counters.get(name, 0) + 1
        return reason


def line(waiting: Waiting, numbers: dict[str, float], what: str = "waits", why: str = "") -> Note:
    """One line of an attempt: `queued_s` on the clock, stages in milliseconds after it."""
    work_id, prefill = waiting.submit.id, waiting.prefill
    numbers["queued_s"] = waiting.arrived_at
    name = "" if prefill is None else prefill.name
    return Note(what, work_id.request_id, work_id.attempt, waiting.reason, numbers, name, why=why)
