"""Sessions of coding agents: JSON lines, one for each session, in which every turn brings the whole conversation.

A turn keeps the first `keep` block ids of the one before and adds the runs `new`; ids are of their session alone, so
sessions share nothing. A turn is due `think_time` after the end of the one before, however long the server takes.
The turns of a subagent are a session of their own, begun by the turn before it; its parent does not wait for it, since
in the recordings it does not. Sessions have no common clock: when one begins is for the load to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from baton.services.loadgen.plan import BlockRun
from baton.services.loadgen.traces.lines import Count, Seconds, broken, decode_line, numbered_lines
from baton.services.loadgen.traces.records import TraceRecord, append_run, first_blocks

Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class _Turn(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    t: Seconds  #: since its session began
    num_input_tokens: Count = msgspec.field(name="in")
    num_output_tokens: Count = msgspec.field(name="out")
    api_time: Seconds | None = None
    think_time: Seconds | None = None
    keep: Count
    new: list[tuple[Count, Count]]  #: runs (first id, number of ids)


class _Whole(_Turn, frozen=True, tag="n"):
    """Answered in one piece."""


class _Streamed(_Turn, frozen=True, tag="s"):
    """Answered as a stream."""


class _Subagent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="subagent"):
    t: Seconds
    agent_id: str
    requests: list[_Whole | _Streamed | _Subagent]


class _Session(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    block_size: Positive
    requests: list[_Whole | _Streamed | _Subagent]


class _Unrolled:
    """One session as records, with ids that are unique in the whole trace."""

    def __init__(self, session: _Session, number: int, first_place: int, first_block: int) -> None:
        self.records: list[TraceRecord] = []
        self._number = number
        self.end_block = first_block  #: above every id of this session
        self._block_size = session.block_size
        self._first_place, self._first_block = first_place, first_block
        self._walk(session.requests, session.id, "requests", None, 0.0)

    def _walk(
        self,
        requests: list[_Whole | _Streamed | _Subagent],
        name: str,
        field: str,
        after: int | None,
        pause_s: float,
    ) -> None:
        """`after` and `pause_s`: what the first turn waits for. Raises ValueError, which names the field."""
        last: _Turn | None = None
        runs: list[BlockRun] = []
        num_turns = 0
        for number, request in enumerate(requests):
            at = f"{field}[{number}]"
            if isinstance(request, _Subagent):
                pause = _pause(last, request.t) if last else pause_s
                self._walk(request.requests, f"{name}/{request.agent_id}", f"{at}.requests", after, pause)
                continue
            if request.keep > sum(run.count for run in runs):
                raise ValueError(f"$.{at}.keep: {request.keep} is more than the blocks of the turn before")
            runs = self._next_blocks(runs, request)
            think_s = pause_s
            if last is not None:
                think_s = _pause(last, request.t) if request.think_time is None else request.think_time
            self._add(request, name, num_turns, tuple(runs), after, think_s)
            after, last = self._first_place + len(self.records) - 1, request
            num_turns += 1

    def _next_blocks(self, runs: list[BlockRun], request: _Turn) -> list[BlockRun]:
        kept = first_blocks(runs, request.keep)
        for first, count in request.new:
            append_run(kept, self._first_block + first, count)
            self.end_block = max(self.end_block, self._first_block + first + count)
        return kept

    def _add(
        self, turn: _Turn, name: str, number: int, blocks: tuple[BlockRun, ...], after: int | None, think_s: float
    ) -> None:
        self.records.append(
            TraceRecord(
                session=name,
                turn=number,
                session_number=self._number,
                after=after,
                think_s=0.0 if after is None else think_s,
                num_input_tokens=max(1, turn.num_input_tokens),
                max_tokens=max(1, turn.num_output_tokens),
                blocks=blocks,
                block_size=self._block_size,
            )
        )


def _pause(last: _Turn, t: float) -> float:
    """Between the end of a turn and the next, where the trace does not say it. A turn without a known duration took
    no time."""
    return max(0.0, t - last.t - (last.api_time or 0.0))


def read_agentic(path: Path) -> Iterator[TraceRecord]:
    """Raises BadTrace. One session is in memory at a time."""
    decoder = msgspec.json.Decoder(_Session)
    num_records = end_block = 0
    for session_number, (number, line) in enumerate(numbered_lines(path)):
        session = decode_line(decoder, path, number, line)
        try:
            unrolled = _Unrolled(session, session_number, num_records, end_block)
        except ValueError as error:
            raise broken(path, number, str(error)) from None
        yield from unrolled.records
        num_records += len(unrolled.records)
        end_block = unrolled.end_block
