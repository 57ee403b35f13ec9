"""What a search of settings found, on the terminal and as files: JSON, CSV, a page, and the settings themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

from baton.core.metrics.goodput import Slo
from baton.core.metrics.intervals import Estimate
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.study.candidates import Candidate
from baton.core.sim.study.frontier import Tradeoff, frontier
from baton.core.sim.study.measured import GOOD, SHARE
from baton.core.sim.study.pairs import figure
from baton.core.sim.study.search import STEP, Search
from baton.core.sim.study.texts import NONE, counted, number, percent, with_interval
from baton.core.sim.study.verdict import KEPT_SHARE
from baton.services.loadgen.out_folder import write_all
from baton.services.sim.compare_report import MORE_LOAD, bounds_text, ends, show_table_of
from baton.services.sim.html import Chart, Column, Line, Page, TableOf, render
from baton.services.sim.study_files import csv_file, json_file
from baton.services.sim.study_flags import seeds_text
from baton.services.sim.tune_settings import check_config, command, config_text

FORMAT_VERSION = 1
LATENCIES = {"ttft_s.p99": "TTFT p99", "itl_s.p99": "ITL p99"}
FIGURES = (GOOD, SHARE, "output_tokens_per_s", *LATENCIES, "ttft_s.p50", "itl_s.p50", "tpot_s.p99")


class Tuned(NamedTuple):
    """A search that is over, by itself or not."""

    search: Search
    unit: str
    slo: Slo
    seeds: Sequence[int]
    executors: int
    settings: dict[str, Any]  #: of the best; or what the scenario says of any topology
    fleet: FleetSpec | None  #: of the best; None: nothing holds any rate
    is_interrupted: bool

    def at_best(self, candidate: Candidate, name: str) -> Estimate | None:
        """A figure at the highest rate that it holds."""
        held = self.search.held(candidate)
        return None if held is None else figure(self.search.runs(candidate, held), name)


def show(of: Tuned, console: Console) -> None:
    _line(console, f"\n[bold]{counted(of.executors, 'executor')}[/], {escape(bounds_text(of.slo))}")
    _line(console, escape(about(of)))
    show_table_of(table_of(of), console)
    _line(console, f"[bold]{escape(sentence(of))}[/]")
    if text := settings_text(of):
        _line(console, "")
        console.print(text, highlight=False, soft_wrap=True, markup=False)


def write(folder: Path, names: Sequence[str], of: Tuned) -> list[Path]:
    """JSON, CSV, page, settings if there are some: all or none. Page and settings. Raises OSError."""
    json_name, csv_name, page_name, settings_name = names
    heads = ("candidate", "rate", "figure", "value", "low", "high", "on_frontier")
    shown = [(page_name, render(page(of)).encode())]
    if text := settings_text(of):
        shown.append((settings_name, text.encode()))
    write_all(folder, [(csv_name, csv_file(heads, csv_rows(of))), *shown, (json_name, json_file(as_data(of)))])
    return [folder / name for name, _ in shown]


def about(of: Tuned) -> str:
    search = of.search
    text = f"highest rates, in {of.unit}, at which at least {percent(KEPT_SHARE)} of the requests are good"
    limits = [each for each in search.finalists() if not search.is_unbounded(each)]
    if limits and all(map(search.is_within_step, limits)):
        text += f", to within {percent(STEP - 1)} for the best settings"
    return f"{text}; {len(search.results)} runs, {seeds_text(of.seeds)}"


def sentence(of: Tuned) -> str:
    """What to take."""
    search = of.search
    bests = search.finalists()
    if not bests:
        least = f"down to {number(min_rate(of))} {of.unit}"
        return f"No settings hold any rate that was tried, {least}: the SLO is too tight."
    best, others = bests[0], bests[1:]
    good = with_interval(of.at_best(best, GOOD))
    text = f"{best.name} holds {_held(of, best)} {of.unit} and serves {good} good requests/s"
    text += "".join(f", {other.name} holds {_held(of, other)}" for other in others)
    if unbounded := [each.name for each in bests if search.is_unbounded(each)]:
        text += _too_small(unbounded)
    elif search.lost(best) is None:
        text += "; it holds every rate that was tried"
    if others and search.held(others[0]) == search.held(best) and len(unbounded) < 2:
        text += "; the first two differ by less than a step"
    text += "".join(_limit(of, each) for each in bests)
    if search.is_out_of_runs:
        text += "; the search ended early: its runs were used up"
    if not search.is_sure(best):
        text += "; this is of one seed"
    return text + "."


def _held(of: Tuned, candidate: Candidate) -> str:
    held = of.search.held(candidate)
    return NONE if held is None else number(of.search.rate(held))


def _too_small(names: Sequence[str]) -> str:
    text = f"; the load is too small to find the limit of {' and '.join(names)}: at that rate it comes as one burst, "
    text += f"within a quarter of the run; {MORE_LOAD} would tell"
    return text if len(names) == 1 else f"{text}, and also which of them serves more"


def _limit(of: Tuned, candidate: Candidate) -> str:
    """Where it is, if that is not within a step of what is held; and what speaks against it."""
    search = of.search
    lost, again = search.lost(candidate), search.holds_again(candidate)
    if lost is None:
        return ""
    text = ""
    if not search.is_within_step(candidate):
        text = f"; {candidate.name} has its limit between {_held(of, candidate)} and {number(search.rate(lost))}"
    if again:
        runs = search.runs(candidate, lost)
        text += f"; {candidate.name} does not hold {number(search.rate(lost))}, but again {_rates(of, again)}: with"
        text += f" {runs[0].num_requests} requests and {counted(len(of.seeds), 'seed')} its share of good ones does not"
        text += " fall evenly with the rate; more of either would tell more"
    return text


def _rates(of: Tuned, steps: Sequence[int]) -> str:
    rates = list(dict.fromkeys(number(of.search.rate(step)) for step in (steps[0], steps[-1])))
    return " to ".join(rates)


def min_rate(of: Tuned) -> float:
    return min(of.search.rate(ask.step) for ask in of.search.results)


def settings_text(of: Tuned) -> str:
    """A file for `baton up --config`, read once as each process would; empty where nothing is recommended."""
    bests = of.search.finalists()
    if not bests or of.fleet is None:
        return ""
    text = config_text(of.fleet, f"{bests[0].name}: most goodput with {bounds_text(of.slo)}")
    check_config(text, of.fleet)
    return text


def table_of(of: Tuned) -> TableOf:
    heads = ["holds", "fails at", "good/s", "per executor", *LATENCIES.values()]
    columns = [Column("settings"), *(Column(head, is_number=True) for head in heads)]
    return TableOf("Settings that were tried", columns, list(_rows(of)))


def _rows(of: Tuned) -> Iterator[list[str]]:
    """The best first; those that challenged in vain have nothing that they hold."""
    search = of.search
    tried = list(dict.fromkeys(ask.candidate for ask in search.results))
    ordered = sorted(tried, key=lambda each: (-_or_least(search.held(each)), len(each.knobs), tried.index(each)))
    for each in ordered:
        lost, again = search.lost(each), search.holds_again(each)
        good = of.at_best(each, GOOD)
        times = [with_interval(of.at_best(each, name), 1e3, "±") for name in LATENCIES]
        yield [
            each.name,
            _held(of, each),
            NONE if lost is None else number(search.rate(lost)) + (f" (holds {_rates(of, again)})" if again else ""),
            with_interval(good, sign="±"),
            NONE if good is None else number(good.value / of.executors),
            *(f"{text} ms" if text != NONE else NONE for text in times),
        ]


def _or_least(step: int | None) -> float:
    return float("-inf") if step is None else step


def tradeoffs(of: Tuned, latency: str) -> dict[Candidate, list[Tradeoff]]:
    """Of each finalist, at the rates that it was run at with all seeds and holds; by ascending rate."""
    found: dict[Candidate, list[Tradeoff]] = {}
    for candidate in of.search.finalists():
        held = of.search.held(candidate)
        steps = sorted({ask.step for ask in of.search.results if ask.candidate == candidate})
        for step in steps:
            runs = of.search.runs(candidate, step)
            good, time = figure(runs, GOOD), figure(runs, latency)
            if held is not None and step <= held and len(runs) == len(of.seeds) and good and time:
                point = Tradeoff(candidate.name, of.search.rate(step), good.value, time.value)
                found.setdefault(candidate, []).append(point)
    return found


def as_data(of: Tuned) -> dict[str, Any]:
    """For JSON."""
    search = of.search
    bests = search.finalists()
    return {
        "format_version": FORMAT_VERSION,
        "kind": "tuning",
        "sentence": sentence(of),
        "best": {"topology": bests[0].topology, "knobs": dict(bests[0].knobs)} if bests else None,
        "command": command(of.fleet) if of.fleet is not None else None,
        "rate_unit": of.unit,
        "slo": of.slo,
        "kept_share": KEPT_SHARE,
        "seeds": list(of.seeds),
        "num_runs": len(search.results),
        "is_out_of_runs": search.is_out_of_runs,
        "is_interrupted": of.is_interrupted,
        "candidates": [_candidate_data(of, each) for each in dict.fromkeys(ask.candidate for ask in search.results)],
        "frontier": {
            name: [each._asdict() for each in frontier([one for many in tradeoffs(of, name).values() for one in many])]
            for name in LATENCIES
        },
        "settings": of.settings,
        "versions": {"baton": version("baton-serve")},
    }


def _candidate_data(of: Tuned, candidate: Candidate) -> dict[str, Any]:
    search = of.search
    held, lost = search.held(candidate), search.lost(candidate)
    steps = sorted({ask.step for ask in search.results if ask.candidate == candidate})
    return {
        "topology": candidate.topology,
        "knobs": dict(candidate.knobs),
        "holds": None if held is None else search.rate(held),
        "fails_at": None if lost is None else search.rate(lost),
        "holds_again": [search.rate(step) for step in search.holds_again(candidate)],
        "is_load_too_small": search.is_unbounded(candidate),
        "points": [
            {"rate": search.rate(step), "num_runs": len(runs), "figures": {n: figure(runs, n) for n in FIGURES}}
            for step in steps
            if (runs := search.runs(candidate, step))
        ],
    }


def csv_rows(of: Tuned) -> Iterator[list[Any]]:
    best = {
        (each.name, each.rate)
        for name in LATENCIES
        for each in frontier([one for many in tradeoffs(of, name).values() for one in many])
    }
    for ask in dict.fromkeys((ask.candidate, ask.step) for ask in of.search.results):
        candidate, step = ask
        rate = of.search.rate(step)
        for name in FIGURES:
            if (found := figure(of.search.runs(candidate, step), name)) is not None:
                bounds = ("" if end is None else end for end in ends(found))
                yield [candidate.name, rate, name, found.value, *bounds, int((candidate.name, rate) in best)]


def page(of: Tuned) -> Page:
    bounds = {"ttft_s.p99": of.slo.ttft_s, "itl_s.p99": of.slo.itl_s}
    return Page(
        kind="Tuning",
        title=counted(of.executors, "executor"),
        verdict=sentence(of),
        facts=[("SLO", bounds_text(of.slo)), ("Search", about(of))],
        note="Up and to the left is better. Bars are 95 % intervals, the dashed line is a bound of the SLO.",
        charts=[_chart(of, name, title, bounds[name]) for name, title in LATENCIES.items()],
        tables=[table_of(of)],
        snippet=settings_text(of),
        settings=[("Recommended" if of.fleet is not None else "Scenario", list(of.settings.items()))],
        warnings=[] if of.fleet is None else sorted({group.profile.source for group in of.fleet.groups}),
    )


def _chart(of: Tuned, latency: str, title: str, bound: float | None) -> Chart:
    lines = []
    for candidate, found in tradeoffs(of, latency).items():
        points, labels = [], []
        for each in found:
            runs = next(
                runs
                for ask in of.search.results
                if ask.candidate == candidate and of.search.rate(ask.step) == each.rate
                and (runs := of.search.runs(candidate, ask.step))
            )  # fmt: skip
            good = figure(runs, GOOD)
            assert good is not None
            points.append((each.latency_s, each.good_per_s, *ends(good)))
            labels.append(f"{each.name} at {number(each.rate)} {of.unit}: {with_interval(good)} good/s")
        lines.append(Line(candidate.name, points, labels))
    note = f"good requests/s, by {title}: each of the best settings from a third of its highest rate to all of it"
    return Chart(f"Goodput against {title}", note, "s", "count", lines, x_bound=bound)


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
