"""One request of a trace, whatever format it was read from."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from baton.services.loadgen.plan import BlockRun


class TraceFormat(enum.StrEnum):
    """What a file is."""

    AUTO = "auto"  #: told by its first line
    MOONCAKE = "mooncake"  #: JSON lines: timestamp, input_length, output_length, hash_ids
    AZURE = "azure"  #: CSV: TIMESTAMP, ContextTokens, GeneratedTokens
    AGENTIC = "agentic"  #: JSON lines of sessions whose turns depend on each other
    PROMPTS = "prompts"  #: JSON lines: prompt or messages, and if known max_tokens and at


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request. Its place is its position among the records of its trace, from 0."""

    at_s: float | None = None  #: since the first record; None: the trace does not say
    session: str = ""
    turn: int = 0
    session_number: int = 0  #: of the session, its subagents' included, in the order of the file
    after: int | None = None  #: place of the record whose request must have ended first; always an earlier one
    think_s: float = 0.0  #: and so long after its end
    num_input_tokens: int = 0  #: 0: unknown, where the text is given
    max_tokens: int = 0  #: 0: the trace does not say
    blocks: tuple[BlockRun, ...] = ()
    block_size: int = 0
    text: str = ""
    messages_json: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a trace is wanted; 0 is no limit."""

    num_requests: int = 0
    num_sessions: int = 0
    start_s: float = 0.0  #: requests due in `[start_s, end_s)`, which then begin at 0
    end_s: float = 0.0
    max_context_tokens: int = 0  #: of a prompt and its answer together


def append_run(runs: list[BlockRun], first: int, count: int) -> None:
    """Runs stay as few as possible: one that continues the last becomes part of it."""
    if runs and runs[-1].first + runs[-1].count == first:
        runs[-1] = BlockRun(runs[-1].first, runs[-1].count + count)
    elif count:
        runs.append(BlockRun(first, count))


def runs_of(block_ids: Iterable[int]) -> tuple[BlockRun, ...]:
    runs: list[BlockRun] = []
    for block_id in block_ids:
        append_run(runs, block_id, 1)
    return tuple(runs)


def first_blocks(runs: Iterable[BlockRun], count: int) -> list[BlockRun]:
    """The runs of the first `count` blocks; fewer if there are no more."""
    kept: list[BlockRun] = []
    for run in runs:
        if count <= 0:
            break
        kept.append(BlockRun(run.first, min(run.count, count)))
        count -= run.count
    return kept
