"""A report on the terminal: what ran, how it ended, and the figures, failures beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baton.core.metrics.compare import Comparison
from baton.core.metrics.compat import Compat
from baton.core.metrics.definitions import UNITS, failure_of
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.intervals import Estimate, unit_of
from baton.core.metrics.percentiles import Distribution
from baton.core.metrics.report import Report
from baton.core.metrics.summary import Summary, measured

WIDEST = 1000  #: columns of a line that goes to a file, at most
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
#: figures of a whole run that have intervals
OF_A_RUN = {
    "requests_per_s": "requests/s",
    "output_tokens_per_s": "output tokens/s",
    "prefix_hit_rate": "prefix hits, share",
    "goodput.share": "share that kept the SLO",
    "goodput.good_per_s": "requests/s that kept the SLO",
}
RATE = "{:.2f}"
Part = tuple[str, float | None, str]  #: name, value, format


class Output(Console):
    """Once nobody reads it any more it is silent, and the run goes on to its files."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())  # for what the exit still flushes


def show_table(table: Table, console: Console) -> None:
    """No word of it is cut, and so no figure: in a file it is as wide as it needs. On a terminal heads and texts fold
    between their words, and what is still too wide for it goes on in its next line."""
    wide = console.options.update(max_width=WIDEST)
    for column in table.columns:
        column.overflow = "fold"
        column.min_width = max(console.measure(text, options=wide).minimum for text in (column.header, *column.cells))
    if not console.is_terminal:
        table.width = console.measure(table, options=wide).maximum
    console.print(table, crop=False)


def show_report(report: Report, facts: Sequence[RequestFacts], console: Console) -> None:
    summary = report.summary
    label = f", {report.label}" if report.label else ""
    _line(console, f"\n[bold]{escape(f'{report.run.model} at {report.run.target}{label}')}[/]")
    _line(console, _ends(report))
    for example in _examples(facts):
        _line(console, f"  {escape(example)}")
    _show_table(console, "milliseconds, or tokens", summary.distributions)
    for parts in _rates(summary):
        _line(console, ", ".join(f"{name} {_formed(value, form)}" for name, value, form in parts if value is not None))
    _show_intervals(report.intervals, console)
    for compat in report.compat:
        _show_compat(compat, console)
    for reason in summary.degraded:
        _line(console, f"[bold yellow]degraded:[/] {escape(reason)}")
    for warning in report.warnings:
        _line(console, f"[yellow]warning:[/] {escape(warning)}")
    for note in (*report.notes, *summary.notes):
        _line(console, f"note: {escape(note)}")


def show_comparison(found: Comparison, names: tuple[str, str], console: Console) -> None:
    _line(console, f"\n1: {escape(names[0])}\n2: {escape(names[1])}")
    text = f"{found.num_common} requests succeeded in both; {found.only_first} in 1 alone, {found.only_second} in 2"
    _line(console, f"{text} alone, {found.neither} in neither. Medians of those in both:")
    table = _new_table("milliseconds, or tokens", ("1", "2", "2 - 1", "2 / 1"))
    for name, row in found.differences.items():
        values = [_number(name, value) for value in (row.first, row.second, row.difference)]
        table.add_row(NAMES[name], *values, "" if row.ratio is None else f"{row.ratio:.3f}")
    show_table(table, console)
    for loss in found.losses:
        _line(console, f"[bold yellow]not whole:[/] {escape(loss)}")
    for caution in found.cautions:
        _line(console, f"[bold yellow]not alike:[/] {escape(caution)}")


def _line(console: Console, text: str) -> None:
    """Never folded: what reads it may not be a terminal."""
    console.print(text, highlight=False, soft_wrap=True)


def _ends(report: Report) -> str:
    counts = report.summary.counts
    text = f"{counts.succeeded} of {counts.planned} requests succeeded in {report.summary.span.length_s:.1f} s"
    if counts.failed:
        classes = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
        text += f"; [bold red]{counts.failed} failed[/] ({classes})"
    if planned := counts.cancelled - counts.cut_short:
        text += f"; {planned} cancelled as planned"
    return text + (f"; [bold yellow]{counts.cut_short} cut short[/] by the end of the run" if counts.cut_short else "")


def _examples(facts: Iterable[RequestFacts]) -> list[str]:
    """Of each class of failures, what was said of the first."""
    said: dict[str, str] = {}
    for row in measured(facts):
        if (failure := failure_of(row)) is not None:
            said.setdefault(failure.value, f"{failure.value}: {row.detail or 'the answer has no finish reason'}")
    return list(said.values())


def _rates(summary: Summary) -> list[list[Part]]:
    """Lines. A load without due times asks for no rate."""
    throughput, rate, goodput = summary.throughput, summary.rate, summary.goodput
    asked: list[Part] = [(f"{rate.what}/s due", rate.asked_per_s, RATE), ("sent", rate.achieved_per_s, RATE)]
    lines: list[list[Part]] = [
        [
            ("requests/s", throughput.requests_per_s, RATE),
            ("output tokens/s", throughput.output_tokens_per_s, "{:,.1f}"),
            ("input tokens/s", throughput.input_tokens_per_s, "{:,.1f}"),
            ("of them not cached", throughput.uncached_input_tokens_per_s, "{:,.1f}"),
            ("prefix hits", summary.prefix_hit_rate, "{:.1%}"),
        ],
        [
            ("open at once: mean", summary.concurrency.mean, "{:.1f}"),
            ("most", summary.concurrency.max, "{:d}"),
            *(asked if rate.asked_per_s is not None else ()),
        ],
    ]
    if goodput is not None:
        lines.append([("share that kept the SLO", goodput.share, "{:.1%}"), ("per s", goodput.good_per_s, RATE)])
    return lines


def _formed(value: float, form: str) -> str:
    """A rate that is small is not written as none."""
    return f"{value:.3g}" if form == RATE and 0 < value < 0.1 else form.format(value)


def _show_intervals(intervals: dict[str, Estimate], console: Console) -> None:
    """Where no figure has one, nothing: of few requests of one run."""
    if not any(found.low is not None for found in intervals.values()):
        return
    num_runs = max(found.num_runs for found in intervals.values())
    of = f"over {num_runs} seeds" if num_runs > 1 else "within this run"
    table = _new_table(f"95 % intervals {of}", ("mean" if num_runs > 1 else "value", "from", "to", "±"))
    for name, found in intervals.items():
        figure, _, statistic = name.rpartition(".")
        title = f"{NAMES[figure]} {statistic}, ms" if figure in NAMES else OF_A_RUN[name]
        numbers = [_sized(name, value) for value in (found.value, found.low, found.high)]
        table.add_row(title, *numbers, "" if found.half_share is None else f"{found.half_share:.1%}")
    show_table(table, console)


def _sized(name: str, value: float | None) -> str:
    """Times in milliseconds, rates and shares as they are: four digits."""
    if value is None:
        return ""
    return f"{value * 1e3:,.1f}" if unit_of(name) in ("s", "s/token") else f"{value:,.4g}"


def _show_compat(compat: Compat, console: Console) -> None:
    text = f"by the definitions of {compat.tool.value}: {compat.completed} completed, {compat.failed} failed"
    _line(console, f"\n{text}")
    _show_table(console, "milliseconds", compat.distributions)
    rates = [f"{name} {value:,.2f}/s" for name, value in compat.rates.items() if value is not None]
    _line(console, ", ".join(rates))


def _show_table(console: Console, unit: str, distributions: dict[str, Distribution]) -> None:
    table = _new_table(unit, SHOWN)
    for name, found in distributions.items():
        if found.count:
            table.add_row(NAMES.get(name, name.removesuffix("_s")), *(_number(name, getattr(found, s)) for s in SHOWN))
    if table.row_count:
        show_table(table, console)


def _new_table(first: str, others: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _number(name: str, value: float | None) -> str:
    """Times in milliseconds, all else as it is."""
    if value is None:
        return ""
    if UNITS.get(name) == "tokens":
        return f"{value:,.0f}"
    return f"{value * 1e3:,.1f}" if name.endswith("_s") else f"{value:,.1f}"
