"""A summary as rows."""

from __future__ import annotations

import pytest

from baton.core.metrics.definitions import UNITS
from baton.core.metrics.facts import Failure
from baton.core.metrics.goodput import Slo
from baton.core.metrics.intervals import Estimate
from baton.core.metrics.summary import summarize
from baton.core.metrics.table import COLUMNS, rows
from tests.core.metrics.stub import failed, fixed_schedule, renumbered


def test_every_defined_value_has_one_row():
    summary = summarize(renumbered([fixed_schedule(), failed(Failure.REFUSED)]), slo=Slo(ttft_s=1.0))
    table = {(figure, statistic): (unit, value) for figure, unit, statistic, value in rows(summary)}
    assert len(table) == len(list(rows(summary)))
    assert table["requests", "planned"] == ("requests", 2)
    assert table["failures", "refused"] == ("requests", 1)
    assert table["itl_s", "p99"] == ("s", pytest.approx(0.01))
    assert table["itl_s", "count"] == ("values", 20)
    assert table["goodput", "share"] == ("share", 0.5)
    assert table["slo_attainment", "ttft_s"] == ("share", 0.5)
    assert {figure for figure, statistic in table if statistic == "count" and figure in UNITS} == set(UNITS)
    assert all(len(row) == len(COLUMNS) and row[3] is not None for row in rows(summary))


def test_what_is_undefined_has_no_row():
    found = {(figure, statistic) for figure, _, statistic, _ in rows(summarize([]))}
    assert ("requests", "throughput") not in found
    assert ("ttft_s", "p50") not in found
    assert ("ttft_s", "count") in found


def test_a_rate_of_chats_is_in_sessions():
    chats = [fixed_schedule(at=float(at), session=f"chat {at}") for at in range(3)]
    found = [row for row in rows(summarize(renumbered(chats))) if row[0] == "request_rate"]
    assert found == [("request_rate", "sessions/s", name, pytest.approx(1.0)) for name in ("asked", "achieved")]


def test_intervals_have_rows_of_their_own():
    intervals = {
        "ttft_s.p50": Estimate(value=0.1, low=0.08, high=0.12, num_runs=4),
        "output_tokens_per_s": Estimate(value=50.0),
    }
    found = list(rows(summarize([]), intervals))[-6:]
    assert found == [
        ("ttft_s.p50", "s", "estimate", 0.1),
        ("ttft_s.p50", "s", "low", 0.08),
        ("ttft_s.p50", "s", "high", 0.12),
        ("ttft_s.p50", "runs", "count", 4),
        ("output_tokens_per_s", "tokens/s", "estimate", 50.0),
        ("output_tokens_per_s", "runs", "count", 1),
    ]
