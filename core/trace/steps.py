"""Steps out of a process's records: what was launched, matched with what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple


class StepRecord(NamedTuple):
    """One step. Times are on the process's clock."""

    step_id: int
    launched_at: float | None  #: handed to the compute thread; None if that is forgotten already
    done_at: float | None  #: when the machine took its result; None while it runs
    duration_s: float  #: as the device measured it; 0 while it runs
    num_decodes: int
    num_prompt_tokens: int
    num_items: int
    padded_batch: int
    lane: int = 0  #: steps of one lane follow each other
    broken: str = ""  #: the stage at which it failed

    @property
    def kind(self) -> str:
        """prefill, decode or mixed; empty if its launch is forgotten."""
        if self.launched_at is None:
            return ""
        if not self.num_decodes:
            return "prefill"
        return "mixed" if self.num_prompt_tokens else "decode"


def steps(records: Iterable[Sequence[Any]]) -> Iterator[StepRecord]:
    """In the order of their ends; those that run are last."""
    launched: dict[int, Sequence[Any]] = {}
    for record in records:
        kind = record[0]
        if kind == "launch":
            launched[record[2]] = record
        elif kind == "done":
            step = _step(record[2], launched.pop(record[2], None))
            yield step._replace(done_at=record[1], duration_s=record[3], padded_batch=record[4])
        elif kind == "broken":
            step = _step(record[2], launched.pop(record[2], None))
            yield step._replace(done_at=record[1], broken=record[3])
    for step_id, record in launched.items():
        yield _step(step_id, record)


def _step(step_id: int, launch: Sequence[Any] | None) -> StepRecord:
    """As it is while it runs."""
    if launch is None:
        return StepRecord(step_id, None, None, 0.0, 0, 0, 0, 0)
    decodes, prompt_tokens, items, lane = launch[3:7]
    return StepRecord(step_id, launch[1], None, 0.0, decodes, prompt_tokens, items, 0, lane)
