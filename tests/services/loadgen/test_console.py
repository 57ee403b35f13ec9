"""What is printed of a run and of two."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console
from rich.table import Table

from baton.core.metrics.compare import RunFiles, compare
from baton.core.metrics.facts import Failure, Phase
from baton.services.loadgen.bench_settings import RunSettings
from baton.services.loadgen.console import show_comparison, show_report, show_table
from baton.services.loadgen.live import LiveView
from baton.services.loadgen.results import Measured, make_report
from baton.services.loadgen.server_metrics import Sample
from tests.services.loadgen.test_results import FACTS, measured, options, target


def printed() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=80), file


def shown(run: Measured, model: str = "m", slo: str = "") -> list[str]:
    console, file = printed()
    show_report(make_report(run, target(model=model), options(run=RunSettings(slo=slo))), run.facts, console)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def row(lines: list[str], name: str) -> list[str]:
    (found,) = [line for line in lines if line.strip().startswith(f"{name}  ")]
    return found.split(name, 1)[1].split()


def test_times_are_milliseconds_and_tokens_are_counts() -> None:
    lines = shown(measured(text="a"))
    assert "m at http://h" in lines
    assert "1 of 1 requests succeeded in 1.0 s" in lines
    assert row(lines, "TTFT") == ["500.0"] * 6
    assert row(lines, "output tokens") == ["2"] * 6
    assert "requests/s 1.00, output tokens/s 2.0, input tokens/s 4.0" in lines


def test_a_rate_that_is_small_is_not_written_as_none() -> None:
    run = measured(text="a")
    run = run._replace(facts=[msgspec.structs.replace(row, done_s=row.sent_s + 800.0) for row in run.facts])
    assert any(line.startswith("requests/s 0.00125, ") for line in shown(run))


def test_a_rate_is_asked_for_only_where_requests_have_times() -> None:
    run = measured(text="a")
    later = msgspec.structs.replace(FACTS, index=1, scheduled_s=0.5, dispatched_s=0.5, sent_s=0.5)
    run = run._replace(facts=[FACTS, later])
    assert "open at once: mean 1.5, most 2, requests/s due 2.00, sent 2.00" in shown(run)
    chats = [msgspec.structs.replace(row, session=f"chat {row.index}") for row in run.facts]
    assert "open at once: mean 1.5, most 2, sessions/s due 2.00, sent 2.00" in shown(run._replace(facts=chats))
    waiting = [msgspec.structs.replace(row, is_due_by_plan=False) for row in run.facts]
    assert "open at once: mean 1.5, most 2" in shown(run._replace(facts=waiting))


def test_failures_stand_by_class_with_what_was_said_of_the_first() -> None:
    failed = [
        msgspec.structs.replace(FACTS, index=index, failure=failure, detail=f"said {index} [of it]")
        for index, failure in ((1, Failure.REFUSED), (2, Failure.REFUSED), (3, Failure.LOST))
    ]
    lines = shown(measured(text="a")._replace(facts=[FACTS, *failed]))
    assert "1 of 4 requests succeeded in 1.0 s; 3 failed (2 refused, 1 lost)" in lines
    assert "  refused: said 1 [of it]" in lines
    assert "  lost: said 3 [of it]" in lines


def test_names_of_others_are_no_markup_and_long_lines_are_not_folded() -> None:
    name = "[bold]" + "x" * 200
    assert f"{name} at http://h" in shown(measured(text="a"), model=name)


def test_an_objective_is_shown_with_its_share() -> None:
    assert "share that kept the SLO 100.0%, per s 1.00" in shown(measured(text="a"), slo="ttft=0.5s")


HEADS = ("× the trace's speed", "2P2D", "executor seconds", "better or not")
CELLS = ("1.25", "1.0123±0.0076", "1,931 (0 to 11,633)", "neither_of_them_at_this_rate")


@pytest.mark.parametrize("width", [10, 40, 60, 80, 200])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_figure_of_a_table_is_ever_cut(width: int, is_terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=is_terminal, color_system=None)
    table = Table()
    for head in HEADS:
        table.add_column(head, justify="right")
    table.add_row(*CELLS)
    show_table(table, console)
    text = file.getvalue()
    assert "…" not in text
    assert all(word in text for cell in (*HEADS, *CELLS) for word in cell.split())
    if not is_terminal:
        assert any(all(cell in line for cell in CELLS) for line in text.splitlines())


def test_a_comparison_has_the_difference_and_what_is_not_alike() -> None:
    slower = msgspec.structs.replace(FACTS, done_s=1.5)
    runs = [measured(text="a"), measured(text="a")._replace(facts=[slower])]
    reports = [make_report(run, target(model=model), options()) for run, model in zip(runs, "mn", strict=True)]
    files = [RunFiles(report, run.facts) for report, run in zip(reports, runs, strict=True)]
    console, file = printed()
    show_comparison(compare(files[0], files[1]), ("a [1]", "b"), console)
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert lines[1:3] == ["1: a [1]", "2: b"]
    assert row(lines, "E2E") == ["1,000.0", "1,500.0", "500.0", "1.500"]
    assert "not alike: models differ: m and n" in lines


def test_the_live_view_counts_measured_requests_and_shows_the_server() -> None:
    view = LiveView("rate=2", 8, lambda: 2.0)
    console, file = printed()
    view.told([msgspec.structs.replace(FACTS, phase=Phase.WARM_UP)])
    console.print(view)
    assert file.getvalue().startswith("warm-up ")
    view.told([FACTS, msgspec.structs.replace(FACTS, index=1, failure=Failure.LOST)])
    view.sampled(Sample(time_s=1.0, num_queued=3.0, kv_use=0.25))
    console.print(view)
    *_, run, recent, server = [line.split() for line in file.getvalue().splitlines()]
    assert run[0] == "rate=2"
    assert " ".join(run[2:]) == "1 good, 1 failed of 8; 2 s"
    assert " ".join(recent) == "last 10 s 1 output tokens/s, TTFT p50 500 ms, p99 500 ms"
    assert " ".join(server) == "server queued 3, KV 25%"
