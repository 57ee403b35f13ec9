"""A bounded memory of what a node did: one tuple for each thing worth showing, taken from its events and commands.

Every record is `(kind, at, …)`, `at` being the time of its turn. None holds a prompt, a token or the text of an error.

    ("turn", at, duration_s, event, num_commands)                          slow turns alone
    ("launch", at, step_id, num_decodes, num_prompt_tokens, num_items, lane)
    ("done", at, step_id, duration_s, padded_batch)
    ("broken", at, step_id, stage)
    ("post", at, peer, ((piece_id, num_bytes), …))
    ("landed", at, piece_id, posted_at, post_s)
    ("failed", at, piece_id)
    ("note", at, what, request_id, attempt, reason, peer, numbers, why)
    ("span", at, what, since, ended_at, reason, until, ended_by, request_id, attempt)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from baton.core.events import Note, Several, Span
from baton.core.executor import events as ev

SLOW_TURN_S = 1e-3  #: shorter turns are counted in a histogram and not shown one by one

Record = tuple[Any, ...]


def note_record(note: Note, at: float) -> Record:
    reason = "" if note.reason is None else note.reason.name
    return ("note", at, note.what, note.request_id, note.attempt, reason, note.peer, note.numbers, note.why)


def span_record(span: Span, at: float) -> Record:
    reason = "" if span.reason is None else span.reason.name
    whom = span.request_id, span.attempt
    return ("span", at, span.what, span.since, span.ended_at, reason, span.until, span.ended_by, *whom)


class Recorder:
    """Keeps the last `capacity` records. `slot_bytes`: of one slot of one plane of KV, to tell bytes of pieces."""

    def __init__(self, capacity: int, slot_bytes: int = 0, slow_turn_s: float = SLOW_TURN_S) -> None:
        self.num_recorded = 0  #: so far, those that are forgotten again included
        self._records: deque[Record] = deque(maxlen=capacity)
        self._slot_bytes = slot_bytes
        self._slow_turn_s = slow_turn_s
        self._takes: dict[type, Callable[[Any, float], None]] = {
            Several: self._several,
            ev.StepDone: self._done,
            ev.StepFailed: self._broken,
            ev.PieceLanded: self._landed,
            ev.PieceFailed: self._failed,
            ev.Launch: self._launch,
            ev.Post: self._post,
            Note: self._note,
            Span: self._span,
        }

    def turn(self, event: Any, commands: Sequence[Any], now: float, ended_at: float) -> None:
        """One turn of the node: its event, the commands that it answered with, and when they were performed."""
        takes = self._takes
        take = takes.get(type(event))
        if take is not None:
            take(event, now)
        for command in commands:
            take = takes.get(type(command))
            if take is not None:
                take(command, now)
        if ended_at - now >= self._slow_turn_s:
            self._keep(("turn", now, ended_at - now, type(event).__name__, len(commands)))

    @property
    def num_forgotten(self) -> int:
        """Records that newer ones have driven out."""
        return self.num_recorded - len(self._records)

    def since(self, at: float) -> list[Record]:
        """Those of turns from then on, oldest first."""
        found = []
        for record in reversed(self._records):
            if record[1] < at:
                break
            found.append(record)
        found.reverse()
        return found

    def _keep(self, record: Record) -> None:
        self.num_recorded += 1
        self._records.append(record)

    def _several(self, event: Several, now: float) -> None:
        for one in event.events:
            take = self._takes.get(type(one))
            if take is not None:
                take(one, now)

    def _launch(self, command: ev.Launch, now: float) -> None:
        plan = command.plan
        num_decodes, num_prompts = len(plan.decodes), len(plan.items)
        counts = num_decodes, plan.num_tokens - num_decodes, num_decodes + num_prompts
        self._keep(("launch", now, plan.step_id, *counts, plan.lane))

    def _done(self, event: ev.StepDone, now: float) -> None:
        result = event.result
        self._keep(("done", now, result.step_id, result.duration_s, result.padded_batch))

    def _broken(self, event: ev.StepFailed, now: float) -> None:
        self._keep(("broken", now, event.step_id, event.stage))

    def _post(self, command: ev.Post, now: float) -> None:
        pieces = tuple([(piece.piece_id, self._num_bytes(piece)) for piece in command.pieces])
        self._keep(("post", now, command.pieces[0].peer, pieces))

    def _num_bytes(self, piece: ev.Piece) -> int:
        return (piece.end_slot - piece.first_slot) * (piece.end_plane - piece.first_plane) * self._slot_bytes

    def _landed(self, event: ev.PieceLanded, now: float) -> None:
        self._keep(("landed", now, event.piece_id, event.posted_at, event.post_s))

    def _failed(self, event: ev.PieceFailed, now: float) -> None:
        self._keep(("failed", now, event.piece_id))

    def _note(self, note: Note, now: float) -> None:
        self._keep(note_record(note, now))

    def _span(self, span: Span, now: float) -> None:
        self._keep(span_record(span, now))
