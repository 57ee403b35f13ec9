"""What the page draws of the facts: histograms, quantiles, and one row for each request."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from baton.core.metrics.definitions import UNITS, failure_of, figures, first_text_s, is_success, schedule_lag, values
from baton.core.metrics.facts import Failure, RequestFacts
from baton.core.metrics.summary import measured

NUM_BINS = 48
MAX_ROWS = 6000  #: requests in the timeline; of more, each k-th is shown
MAX_DETAILS = 100  #: failures that are shown with what was said of them
MAX_DETAIL_CHARS = 300
LOG_FROM_RATIO = 30.0  #: an axis is logarithmic where the largest value is so many times the smallest
SAME = 1e-9  #: values that differ by no larger share are drawn as one
MAX_LOG_RATIO = 1e5  #: smaller values stand in the first bin
#: of the curves, in percent: even steps, and more of the tail
QUANTILES = (*(step / 2 for step in range(200)), 99.7, 99.8, 99.9, 99.95, 100.0)
TIME_DIGITS = 5

Floats = npt.NDArray[np.float64]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution. Bin i is `[edges[i], edges[i + 1])`; the last one has its end too."""

    is_log: bool
    has_below: bool  #: the first bin has smaller values as well
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    quantiles: tuple[float, ...]  #: at QUANTILES


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in the order in which they were due; every tuple has one value for each."""

    num_left_out: int
    index: tuple[int, ...]
    due_s: tuple[float, ...]
    sent_s: tuple[float | None, ...]
    first_s: tuple[float | None, ...]
    done_s: tuple[float | None, ...]
    output_tokens: tuple[int | None, ...]
    end: tuple[str, ...]  #: a class of failure, "succeeded" or "cancelled"


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """A failed request."""

    index: int
    due_s: float
    failure: Failure
    status: int
    detail: str


class Shapes(msgspec.Struct, frozen=True, kw_only=True):
    """Of the measured phase."""

    distributions: dict[str, Shape]  #: by the names in UNITS; those without values are not there
    rows: Rows
    failed: tuple[Detail, ...]


def shapes(facts: Iterable[RequestFacts]) -> Shapes:
    rows = measured(facts)
    found = values(figures(row) for row in rows if is_success(row))
    found["schedule_lag_s"] = array("d", [lag for row in rows if (lag := schedule_lag(row)) is not None])
    failed = [row for row in rows if failure_of(row) is not None]
    return Shapes(
        distributions={name: shape(found[name]) for name in UNITS if found[name]},
        rows=_rows(rows),
        failed=tuple(_detail(row) for row in failed[:MAX_DETAILS]),
    )


def shape(numbers: Sequence[float]) -> Shape:
    """Of at least one value, none of them negative."""
    array = np.asarray(numbers, dtype=np.float64)
    is_log, edges = _edges(array)
    counts, _ = np.histogram(np.maximum(array, edges[0]), edges)
    return Shape(
        is_log=is_log,
        has_below=bool(array.min() < edges[0]),
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        quantiles=tuple(np.percentile(array, QUANTILES).tolist()),
    )


def _edges(array: Floats) -> tuple[bool, Floats]:
    low, high = float(array.min()), float(array.max())
    if high - low <= high * SAME:
        margin = abs(high) * 0.1 or 1e-3
        return False, np.linspace(max(low - margin, 0.0), high + margin, 10)
    smallest = float(array[array > 0].min())
    if high / smallest < LOG_FROM_RATIO:
        return False, np.linspace(0.0 if low < 0.3 * high else low, high, NUM_BINS + 1)
    edges = np.geomspace(max(smallest, high / MAX_LOG_RATIO), high, NUM_BINS + 1)
    edges[-1] = high  # whatever rounding made of it
    return True, edges


def _rows(rows: Sequence[RequestFacts]) -> Rows:
    ordered = sorted(rows, key=lambda row: (row.scheduled_s, row.index))
    kept = _thinned(ordered)
    return Rows(
        num_left_out=len(ordered) - len(kept),
        index=tuple(row.index for row in kept),
        due_s=tuple(round(row.scheduled_s, TIME_DIGITS) for row in kept),
        sent_s=tuple(_rounded(row.sent_s) for row in kept),
        first_s=tuple(_rounded(first_text_s(row)) for row in kept),
        done_s=tuple(_rounded(row.done_s) for row in kept),
        output_tokens=tuple(figures(row).output_tokens for row in kept),
        end=tuple(_end(row) for row in kept),
    )


def _thinned(rows: list[RequestFacts]) -> list[RequestFacts]:
    """Each k-th, so that the picture keeps its proportions."""
    step = -(-len(rows) // MAX_ROWS)
    return rows[::step] if step > 1 else rows


def _end(row: RequestFacts) -> str:
    failure = failure_of(row)
    if failure is not None:
        return failure.value
    return "succeeded" if is_success(row) else "cancelled"


def _detail(row: RequestFacts) -> Detail:
    failure = failure_of(row)
    assert failure is not None
    return Detail(
        index=row.index,
        due_s=row.scheduled_s,
        failure=failure,
        status=row.status,
        detail=row.detail if len(row.detail) <= MAX_DETAIL_CHARS else row.detail[:MAX_DETAIL_CHARS] + "…",
    )


def _rounded(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s, TIME_DIGITS)
