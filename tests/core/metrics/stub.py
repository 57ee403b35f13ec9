"""Facts of a server with a fixed schedule, and of requests at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from baton.core.metrics.facts import UNKNOWN, Chunk, Failure, RequestFacts
from baton.core.metrics.over_time import over_time
from baton.core.metrics.report import Report, Run
from baton.core.metrics.summary import summarize

CHARS_PER_TOKEN = 5


def answer(
    chunks: Sequence[tuple[float, int]], /, *, at: float = 0.0, is_counted: bool = False, **changes: Any
) -> RequestFacts:
    """A success whose chunks (seconds after sending, tokens) come as said, the usage with the last one.

    `is_counted`: the server says a count with each event too.
    """
    fields: dict[str, Any] = {
        "index": 0,
        "scheduled_s": at,
        "dispatched_s": at,
        "sent_s": at,
        "headers_s": at + 0.01,
        "first_event_s": at + 0.01,
        "chunks": tuple(
            Chunk(at + time_s, tokens * CHARS_PER_TOKEN, tokens if is_counted else UNKNOWN) for time_s, tokens in chunks
        ),
        "done_s": at + chunks[-1][0],
        "status": 200,
        "num_input_tokens": 16,
        "num_cached_tokens": 0,
        "num_output_tokens": sum(tokens for _, tokens in chunks),
        "finish_reason": "stop",
    }
    return RequestFacts(**{**fields, **changes})


def fixed_schedule(*, first: int = 1, num_more: int = 5, **changes: Any) -> RequestFacts:
    """A role event at 10 ms, `first` tokens of text at 100 ms, then 4 tokens every 40 ms."""
    return answer([(0.1, first)] + [(0.1 + 0.04 * (i + 1), 4) for i in range(num_more)], **changes)


def failed(failure: Failure, index: int = 0, at: float = 0.0, **changes: Any) -> RequestFacts:
    fields: dict[str, Any] = {"index": index, "scheduled_s": at, "failure": failure}
    if failure is not Failure.UNSENT:
        fields |= {"dispatched_s": at, "sent_s": at, "done_s": at + 0.001}
    return RequestFacts(**{**fields, **changes})


def renumbered(rows: Sequence[RequestFacts]) -> list[RequestFacts]:
    return [msgspec.structs.replace(row, index=index) for index, row in enumerate(rows)]


def a_report(facts: Sequence[RequestFacts], **changes: Any) -> Report:
    run: dict[str, Any] = {
        "target": "http://127.0.0.1:8000",
        "model": "tiny",
        "seed": 7,
        "plan_fingerprint": "f" * 32,
        "settings": {"rate": 4.0, "lengths": [16, 21]},
        "machine": {"cpu": "two cores"},
        "versions": {"baton": "0.1.0"},
    }
    return Report(run=Run(**{**run, **changes}), summary=summarize(facts), series=over_time(facts))


@st.composite
def requests(draw: st.DrawFn) -> RequestFacts:
    """Any success, with or without counts, in chunks of any size, at whole microseconds."""
    gaps = draw(st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 9)), min_size=1, max_size=12))
    times = [sum(gap for gap, _ in gaps[: index + 1]) / 1e6 for index in range(len(gaps))]
    return answer(
        [(time_s, tokens) for time_s, (_, tokens) in zip(times, gaps, strict=True)],
        at=draw(st.integers(0, 100_000_000)) / 1e6,
        is_counted=draw(st.booleans()),
    )
