"""Sequences whose KV has landed join the batch a few at a time (W10): a batch that grows at once makes a long step.

In each decode step `join_share` of the batch may be new, and one always. More join only where one would otherwise be
kept longer than `join_max_steps` steps or `join_max_ms`: then as many in each step as bring everybody in by then, and
no more. They hold their blocks and slots and their first tokens are with the client; a sequence is *activated* when it
may be in the next decode step (H13).
"""

from __future__ import annotations

from itertools import islice
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baton.core.executor.sequence import Sequence
    from baton.core.executor.state import ExecutorState


class Arrival:
    """A sequence that waits to join."""

    __slots__ = ("at_step", "landed_at", "sequence")

    def __init__(self, sequence: Sequence, landed_at: float, at_step: int) -> None:
        self.sequence = sequence
        self.landed_at = landed_at
        self.at_step = at_step  #: decode steps launched before it landed


class Joining:
    """Who waits, in the order of landing, and how the next decode step has grown already."""

    __slots__ = ("joined", "num_steps", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, Arrival] = {}  #: by seq_id
        self.num_steps = 0  #: decode steps launched
        self.joined: set[int] = set()  #: by seq_id, who joined since the last one


def arrive(state: ExecutorState, sequence: Sequence) -> None:
    """All that it needs to decode is here."""
    state.joining.waiting[sequence.seq_id] = Arrival(sequence, state.now, state.joining.num_steps)


def admit(state: ExecutorState) -> None:
    """Let join who may be in the next decode step."""
    joining = state.joining
    if not joining.waiting:
        return
    num_joined = _num_joined(state)
    allowed = max(1, int(state.config.join_share * (len(state.running) - num_joined)))
    allowed = max(allowed, _needed(state, num_joined)) - num_joined
    for arrival in list(islice(joining.waiting.values(), max(0, allowed))):
        sequence = arrival.sequence
        del joining.waiting[sequence.seq_id]
        joining.joined.add(sequence.seq_id)
        activate(state, sequence)


def activate(state: ExecutorState, sequence: Sequence) -> None:
    """From now on it may be in a decode step."""
    marks = sequence.group.marks
    if "activated" not in marks.at:
        marks.first("activated", state.now)
        state.note_time("landed_to_activated_seconds", marks, "landed", "activated")
    state.running[sequence.seq_id] = sequence


def note_launch(state: ExecutorState, num_decodes: int) -> None:
    """A step was committed."""
    if num_decodes:
        state.joining.num_steps += 1
        state.joining.joined.clear()


def wake_at(state: ExecutorState) -> float | None:
    """When somebody must join at the latest, whatever steps do."""
    first = next(iter(state.joining.waiting.values()), None)
    return None if first is None else first.landed_at + state.config.join_max_ms / 1e3


def _num_joined(state: ExecutorState) -> int:
    """How many are new in the next decode step. Who has ended since takes nobody's place."""
    return sum(seq_id in state.running for seq_id in state.joining.joined)


def _needed(state: ExecutorState, num_joined: int) -> int:
    """How many must be new in the next decode step, those that joined already included, so that by even steps nobody is
    kept too long."""
    needed = 0
    for number, arrival in enumerate(state.joining.waiting.values(), num_joined + 1):
        needed = max(needed, ceil(number / (_steps_left(state, arrival) + 1)))
    return needed


def _steps_left(state: ExecutorState, arrival: Arrival) -> int:
    """Decode steps that may still go without it."""
    left = state.config.join_max_steps - (state.joining.num_steps - arrival.at_step)
    left_s = arrival.landed_at + state.config.join_max_ms / 1e3 - state.now
    step_s = state.pace.decode_step_s
    if left_s <= 0:
        return 0
    return max(0, min(left, int(left_s / step_s)) if step_s > 0 else left)
