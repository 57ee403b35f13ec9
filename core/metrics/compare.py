"""Two runs of one plan, over the requests that succeeded in both: anything else compares different work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from baton.core.errors import ServingError
from baton.core.metrics.definitions import figures, is_success, values
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.percentiles import percentile
from baton.core.metrics.report import Report, comparable
from baton.core.metrics.summary import measured


class NotComparable(ServingError):
    """The two runs did not do the same work, or have none in common."""


class RunFiles(NamedTuple):
    """A report and the facts beside it."""

    report: Report
    facts: Iterable[RequestFacts]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Of one figure's medians over the common requests."""

    first: float
    second: float
    difference: float  #: second − first
    ratio: float | None  #: second / first; None where the first is 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    num_common: int  #: succeeded in both
    only_first: int  #: succeeded in the first alone, and is told of in both
    only_second: int
    neither: int  #: succeeded in none, and is told of in both
    losses: tuple[str, ...]  #: of which run how many requests are told of in its report and not in its facts
    differences: dict[str, Difference]  #: by the names in `definitions.UNITS`; those defined in both
    cautions: tuple[str, ...]  #: what `report.comparable` says


def compare(first: RunFiles, second: RunFiles) -> Comparison:
    """Requests are matched by their index. Raises NotComparable if the plans are not the same, or none succeeded in
    both."""
    if first.report.run.plan_fingerprint != second.report.run.plan_fingerprint:
        raise NotComparable("the two runs have different plans, so their requests are not the same")
    rows = [{row.index: row for row in measured(run.facts)} for run in (first, second)]
    good = [{index for index, row in found.items() if is_success(row)} for found in rows]
    common = sorted(good[0] & good[1])
    losses = tuple(
        f"the records of the {name} hold {len(found)} of its {planned} requests"
        for name, run, found in zip(("first", "second"), (first, second), rows, strict=True)
        if len(found) < (planned := run.report.summary.counts.planned)
    )
    if not common:
        ends = ", ".join(f"{len(ones)} in the {name}" for name, ones in zip(("first", "second"), good, strict=True))
        raise NotComparable("; ".join((f"nothing to compare: no request succeeded in both ({ends})", *losses)))
    told = rows[0].keys() & rows[1].keys()
    medians = [_medians([found[index] for index in common]) for found in rows]
    return Comparison(
        num_common=len(common),
        only_first=len(told & good[0] - good[1]),
        only_second=len(told & good[1] - good[0]),
        neither=len(told - good[0] - good[1]),
        losses=losses,
        differences={
            name: _difference(medians[0][name], medians[1][name]) for name in medians[0] if name in medians[1]
        },
        cautions=comparable(first.report, second.report),
    )


def _medians(rows: Iterable[RequestFacts]) -> dict[str, float]:
    return {name: percentile(sorted(found), 50.0) for name, found in values(map(figures, rows)).items() if found}


def _difference(first: float, second: float) -> Difference:
    return Difference(first=first, second=second, difference=second - first, ratio=second / first if first else None)
