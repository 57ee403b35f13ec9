"""A comparison on the terminal and as files: JSON, CSV and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baton.core.metrics.goodput import Slo
from baton.core.metrics.intervals import Estimate
from baton.core.sim.study.crossing import Better
from baton.core.sim.study.measured import COST, EXECUTOR_S, GOOD, SHARE, Measured, is_burst
from baton.core.sim.study.pairs import figure, good_difference
from baton.core.sim.study.reasons import BOUNDS
from baton.core.sim.study.texts import NONE, counted, number, percent, time_text, with_interval
from baton.core.sim.study.verdict import KEPT_SHARE, AtRate, Held, Named, Verdict, held, point
from baton.services.loadgen.console import show_table
from baton.services.loadgen.out_folder import write_all
from baton.services.sim.html import Chart, Column, Line, Page, TableOf, render
from baton.services.sim.study_files import csv_file, json_file
from baton.services.sim.study_flags import seeds_text

FORMAT_VERSION = 1
MORE_LOAD = "more requests or sessions"
#: figure → its unit, in this order in files
FIGURES = {
    GOOD: "requests/s", SHARE: "share", "requests_per_s": "requests/s", "output_tokens_per_s": "tokens/s",
    "ttft_s.p50": "s", "ttft_s.p99": "s", "itl_s.p50": "s", "itl_s.p99": "s", "tpot_s.p50": "s/token",
    "tpot_s.p99": "s/token", "e2e_s.p50": "s", "e2e_s.p99": "s", EXECUTOR_S: "s", COST: "money",
}  # fmt: skip
#: figure → (head, factor) in tables: times in milliseconds
SHOWN = {
    "ttft_s.p50": ("TTFT p50", 1e3), "ttft_s.p99": ("TTFT p99", 1e3), "itl_s.p50": ("ITL p50", 1e3),
    "itl_s.p99": ("ITL p99", 1e3), "output_tokens_per_s": ("tokens/s", 1.0), EXECUTOR_S: ("executor s", 1.0),
    COST: ("cost", 1.0),
}  # fmt: skip


class Comparison(NamedTuple):
    """All that is told."""

    named: Named
    found: Sequence[AtRate]
    slo: Slo
    seeds: Sequence[int]
    verdict: Verdict
    settings: Sequence[dict[str, Any]]  #: of both, what is the same in all runs
    sources: tuple[str, ...]

    def sides(self, at: AtRate) -> list[tuple[str, Sequence[Measured]]]:
        return [(self.named.first, at.first), (self.named.second, at.second)]

    @property
    def shown(self) -> list[str]:
        """Those of `SHOWN` that some run has."""
        runs = [run for at in self.found for run in (*at.first, *at.second)]
        return [name for name in SHOWN if any(name in run.figures for run in runs)]


def show(of: Comparison, console: Console) -> None:
    named = of.named
    _line(console, f"\n[bold]{escape(named.first)} against {escape(named.second)}[/], {escape(bounds_text(of.slo))}")
    _line(console, escape(about(of)))
    for table in tables_of(of):
        show_table_of(table, console, table.title)
    for name, text in held_texts(of):
        _line(console, escape(f"{name}: {text}"))
    _line(console, f"\n[bold]{escape(of.verdict.sentence)}[/]")
    for source in of.sources:
        _line(console, f"[yellow]note:[/] {escape(source)}")


def show_table_of(table: TableOf, console: Console, title: str = "") -> None:
    shown = Table(
        title=escape(title) or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for head in table.columns:
        shown.add_column(escape(head.title), justify="right" if head.is_number else "left")
    for row in table.rows:
        shown.add_row(*map(escape, row))
    show_table(shown, console)


def write(folder: Path, names: Sequence[str], of: Comparison) -> list[Path]:
    """JSON, CSV, page: all or none. The page. Raises OSError."""
    json_name, csv_name, page_name = names
    heads = ("rate", "deployment", "figure", "unit", "value", "low", "high")
    files = [(csv_name, csv_file(heads, csv_rows(of))), (page_name, render(page(of)).encode())]
    write_all(folder, [*files, (json_name, json_file(as_data(of)))])
    return [folder / page_name]


def about(of: Comparison) -> str:
    """How it was measured."""
    num_requests = max(run.num_requests for at in of.found for run in (*at.first, *at.second))
    rates = f"{counted(len(of.found), 'rate')} in {of.named.unit}"
    return f"good requests per second, at {rates}, {num_requests} requests each, {seeds_text(of.seeds)}"


def bounds_text(slo: Slo) -> str:
    bounds = {name: getattr(slo, name) for name in BOUNDS}
    return ", ".join(f"{BOUNDS[name]} ≤ {time_text(bound)}" for name, bound in bounds.items() if bound is not None)


def tables_of(of: Comparison) -> list[TableOf]:
    named = of.named
    heads = [named.unit, named.first, "good", named.second, "good", "difference"]
    columns = [Column(heads[0]), *(Column(head, is_number=True) for head in heads[1:]), Column("better")]
    return [
        TableOf("Good requests per second", columns, list(_goodput_rows(of))),
        *(_latencies(of, side) for side in (0, 1)),
    ]


def _goodput_rows(of: Comparison) -> Iterator[list[str]]:
    for at in of.found:
        at_point = point(at)
        row = [number(at.rate)]
        for _, runs in of.sides(at):
            share = figure(runs, SHARE)
            row += [with_interval(figure(runs, GOOD), sign="±"), NONE if share is None else percent(share.value)]
        better = Better.NEITHER if at_point is None else at_point.better
        row += [with_interval(good_difference(at.first, at.second), sign="±"), of.named.name(better) or "neither"]
        yield row


def _latencies(of: Comparison, side: int) -> TableOf:
    name = (of.named.first, of.named.second)[side]
    heads = [of.named.unit, *(SHOWN[each][0] for each in of.shown)]
    rows = []
    for at in of.found:
        runs = (at.first, at.second)[side]
        shown = [with_interval(figure(runs, each), SHOWN[each][1], "±") for each in of.shown]
        rows.append([number(at.rate), *shown])
    title = f"{name}: milliseconds; executor seconds per 1,000 tokens of good requests"
    if COST in of.shown:
        title += "; money per million tokens"
    return TableOf(title, [Column(heads[0]), *(Column(head, is_number=True) for head in heads[1:])], rows)


def held_texts(of: Comparison) -> Iterator[tuple[str, str]]:
    """Up to where each keeps the SLO for most requests, and from where on the load tells nothing."""
    rates = [at.rate for at in of.found]
    for side, name in enumerate((of.named.first, of.named.second)):
        shares = [figure((at.first, at.second)[side], SHARE) for at in of.found]
        found = held(rates, [0.0 if share is None else share.value for share in shares])
        yield name, f"at least {percent(KEPT_SHARE)} of the requests are good {_held_text(found, of.named.unit)}"
    if (rate := burst_rate(of.found)) is not None:
        text = f"at {number(rate)} {of.named.unit} it comes as one burst, within a quarter of the run"
        yield "Load", f"{text}: it is too small to tell of higher rates; {MORE_LOAD} would"


def burst_rate(found: Sequence[AtRate]) -> float | None:
    """The lowest from which on the load is a burst, and not because requests wait; None: it is not."""
    for at in found:
        shares = [figure(runs, SHARE) for runs in (at.first, at.second)]
        is_kept = any(share is not None and share.value >= KEPT_SHARE for share in shares)
        if is_kept and is_burst(at.first) and is_burst(at.second):
            return at.rate
    return None


def _held_text(found: Held, unit: str) -> str:
    if found.lost is None:
        return "at all of these rates"
    again = f", and again at {', '.join(map(number, found.again))}" if found.again else ""
    if found.last is None or found.between is None:
        return f"at none of these rates below {number(found.again[0])}{again}" if again else "at none of these rates"
    text = f"up to {number(found.last)} and not at {number(found.lost)} {unit}{again}"
    return f"{text} (with a straight line between the two: up to {number(found.between)})"


def as_data(of: Comparison) -> dict[str, Any]:
    """For JSON."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": "comparison",
        "first": of.named.first,
        "second": of.named.second,
        "rate_unit": of.named.unit,
        "slo": of.slo,
        "seeds": list(of.seeds),
        "verdict": {
            "sentence": of.verdict.sentence,
            "reason": of.verdict.reason,
            "better": [{"from": low, "to": high, "name": name or None} for low, high, name in of.verdict.better],
            "crossings": [{**turn._asdict(), "above": of.named.name(turn.above)} for turn in of.verdict.crossings],
        },
        "points": [_point_data(of, at) for at in of.found],
        "settings": of.settings,
        "sources": list(of.sources),
        "versions": {"baton": version("baton-serve")},
    }


def _point_data(of: Comparison, at: AtRate) -> dict[str, Any]:
    return {
        "rate": at.rate,
        "difference": good_difference(at.first, at.second),
        **{
            side: {
                "figures": {name: figure(runs, name) for name in FIGURES if figure(runs, name) is not None},
                "first_run": {"attainment": runs[0].attainment, "uses": runs[0].uses, "waits": runs[0].waits},
            }
            for side, runs in (("first", at.first), ("second", at.second))
        },
    }


def csv_rows(of: Comparison) -> Iterator[list[Any]]:
    for at in of.found:
        for name, runs in of.sides(at):
            for each, unit in FIGURES.items():
                if (found := figure(runs, each)) is not None:
                    yield [at.rate, name, each, unit, found.value, *("" if end is None else end for end in ends(found))]


def ends(found: Estimate) -> tuple[float | None, float | None]:
    return found.low, found.high


def page(of: Comparison) -> Page:
    turns = [(turn.low, turn.rate, turn.high) for turn in of.verdict.crossings]
    charts = [
        _chart(of, "Goodput", f"good requests/s, by {of.named.unit}", GOOD, "count", turns=turns),
        _chart(of, "Time to first token", f"p99, by {of.named.unit}", "ttft_s.p99", "s", bound=of.slo.ttft_s),
        _chart(of, "Inter-token latency", f"p99, by {of.named.unit}", "itl_s.p99", "s", bound=of.slo.itl_s),
        _chart(of, "Output", f"tokens/s, by {of.named.unit}", "output_tokens_per_s", "count"),
    ]
    facts = [("SLO", bounds_text(of.slo)), ("Load", about(of)), *held_texts(of)]
    return Page(
        kind="Comparison",
        title=f"{of.named.first} against {of.named.second}",
        verdict=of.verdict.sentence,
        facts=facts,
        note="Bars and ± are 95 % intervals; a shaded range is where the two cross, between measured rates.",
        charts=charts,
        tables=tables_of(of),
        settings=[
            (name, list(settings.items()))
            for name, settings in zip((of.named.first, of.named.second), of.settings, strict=True)
        ],
        warnings=list(of.sources),
    )


def _chart(
    of: Comparison,
    title: str,
    note: str,
    name: str,
    unit: str,
    bound: float | None = None,
    turns: Sequence[tuple[float, float, float]] = (),
) -> Chart:
    lines = []
    for side, called in enumerate((of.named.first, of.named.second)):
        found = [(at.rate, figure((at.first, at.second)[side], name)) for at in of.found]
        points = [(rate, each.value, *ends(each)) for rate, each in found if each is not None]
        lines.append(Line(called, points))
    return Chart(title, note, of.named.unit, unit, lines, bound=bound, turns=list(turns), is_line=True)


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
