"""A report on the terminal: what ran, how it ended, and the figures, failures beside them."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from baton.core.metrics.compare import Comparison
from baton.core.metrics.definitions import UNITS
from baton.core.metrics.percentiles import Distribution
from baton.core.metrics.report import Report

SHOWN = ("mean", "p50", "p90", "p95", "p99", "max")
NAMES = {
    "ttft_s": "TTFT",
    "ttft_from_schedule_s": "TTFT from the schedule",
    "e2e_s": "E2E",
    "e2e_from_schedule_s": "E2E from the schedule",
    "tpot_s": "TPOT",
    "itl_s": "ITL",
    "chunk_gap_s": "gap between chunks",
    "longest_gap_s": "longest gap",
    "schedule_lag_s": "schedule lag of the client",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
}


def show_report(report: Report, console: Console) -> None:
    summary = report.summary
    title = f"{report.run.model} at {report.run.target}" + (f", {report.label}" if report.label else "")
    console.print(f"\n[bold]{title}[/]", highlight=False)
    console.print(_ends(report), highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("milliseconds, or tokens")
    for name in SHOWN:
        table.add_column(name, justify="right")
    for name, distribution in summary.distributions.items():
        if distribution.count:
            table.add_row(NAMES[name], *_cells(name, distribution))
    console.print(table)
    console.print(_rates(report), highlight=False)
    for reason in summary.degraded:
        console.print(f"[bold yellow]degraded:[/] {reason}", highlight=False)
    for note in (*summary.notes, *report.warnings):
        console.print(f"[yellow]note:[/] {note}", highlight=False)


def show_comparison(found: Comparison, names: tuple[str, str], console: Console) -> None:
    console.print(
        f"\n{found.num_common} requests succeeded in both; {found.only_first} in {names[0]} alone, "
        f"{found.only_second} in {names[1]} alone, {found.neither} in neither. Medians over the common ones:",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("milliseconds, or tokens", *names, "difference", "ratio"):
        table.add_column(column, justify="left" if column.startswith("milli") else "right")
    for name, row in found.differences.items():
        values = [_number(name, value) for value in (row.first, row.second, row.difference)]
        table.add_row(NAMES[name], *values, "" if row.ratio is None else f"{row.ratio:.3f}")
    console.print(table)
    for caution in found.cautions:
        console.print(f"[bold yellow]not alike:[/] {caution}", highlight=False)


def _ends(report: Report) -> str:
    counts = report.summary.counts
    text = f"{counts.succeeded} of {counts.planned} requests succeeded in {report.summary.span.length_s:.1f} s"
    if counts.failed:
        classes = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
        text += f"; [bold red]{counts.failed} failed[/] ({classes})"
    return text + (f"; {counts.cancelled} cancelled as planned" if counts.cancelled else "")


def _cells(name: str, distribution: Distribution) -> list[str]:
    return [_number(name, getattr(distribution, statistic)) for statistic in SHOWN]


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if UNITS[name] == "tokens" else f"{value * 1e3:,.1f}"


def _rates(report: Report) -> str:
    summary = report.summary
    throughput, rate, goodput = summary.throughput, summary.rate, summary.goodput
    parts = [
        ("requests/s", throughput.requests_per_s, "{:.2f}"),
        ("output tokens/s", throughput.output_tokens_per_s, "{:,.1f}"),
        ("input tokens/s", throughput.input_tokens_per_s, "{:,.1f}"),
        ("of them not cached", throughput.uncached_input_tokens_per_s, "{:,.1f}"),
        ("prefix hits", summary.prefix_hit_rate, "{:.1%}"),
        ("requests/s due", rate.asked_per_s, "{:.2f}"),
        ("sent", rate.achieved_per_s, "{:.2f}"),
        ("open at once: mean", summary.concurrency.mean, "{:.1f}"),
        ("most", summary.concurrency.max, "{:d}"),
    ]
    if goodput is not None:
        parts += [("goodput/s", goodput.good_per_s, "{:.2f}"), ("share that kept the SLO", goodput.share, "{:.1%}")]
    return ", ".join(f"{name} {form.format(value)}" for name, value, form in parts if value is not None)
