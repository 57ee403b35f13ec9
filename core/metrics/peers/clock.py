"""What the other tools have in common: their clock and their rates."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.metrics.definitions import failure_of
from baton.core.metrics.facts import Failure, RequestFacts
from baton.core.metrics.percentiles import Distribution

#: Name → distribution; name → amount per second. Names are the tool's own.
Board = tuple[dict[str, Distribution], dict[str, float | None]]

#: Ends that no tool notices: none asks for a finish reason or an end marker.
UNNOTICED = frozenset({Failure.NO_FINISH, Failure.NO_END})


def start(row: RequestFacts) -> float:
    """They all start the clock before they connect: when the request was taken up."""
    return row.scheduled_s if row.dispatched_s is None else row.dispatched_s


def input_tokens(rows: Sequence[RequestFacts]) -> int:
    """What `usage` says, where it does."""
    return sum(max(row.num_input_tokens, 0) for row in rows)


def has_text_and_no_error(row: RequestFacts) -> bool:
    failure = failure_of(row)
    return bool(row.chunks) and (failure is None or failure in UNNOTICED)
