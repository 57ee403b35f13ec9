"""`baton sim --scenario NAME` of a scenario with arms: others' figures reproduced first, ours beside them then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baton.core.metrics.goodput import NO_SLO
from baton.core.sim.fleet_run.arms import (
    RATE_KNOB,
    Arm,
    Arms,
    Compared,
    Figures,
    at_rate,
    check,
    compare,
    scenario_of,
    that_set,
)
from baton.core.sim.fleet_run.goodput import RateSearch, highest_rate, kept_share
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import BadScenario, RunScenario
from baton.services.loadgen.bench_settings import slo_of
from baton.services.loadgen.console import show_table
from baton.services.sim.load import load_of
from baton.services.sim.run_flags import BadCommand

EXIT_NOT_REPRODUCED = 1


def check_settings(told: Mapping[str, str], arms: Arms) -> list[str]:
    """`told`: what was set, by its path → as it was said. Says of which arms a setting is lost, because they set it
    themselves. Raises BadCommand where it is lost of all."""
    lines = []
    for path, said in told.items():
        losing = that_set(arms, path)
        if len(losing) == len(arms.arms):
            is_searched = arms.goodput is not None and path == RATE_KNOB
            why = "the search of rates varies it" if is_searched else f"every arm sets it ({', '.join(losing)})"
            raise BadCommand(f"{said}: it would have no effect: {why}")
        if losing:
            lines.append(f"{said}: no effect on {', '.join(losing)}, which set it themselves")
    return lines


def run_arms(table: dict[str, Any], arms: Arms, console: Console, simulate: Any) -> int:
    """Arms with published figures first; the others only if those are reproduced. `simulate` makes a run."""
    console.print(escape(str(table.get("title", ""))), highlight=False, soft_wrap=True)
    values: dict[str, Figures] = {}
    if not any(arm.published for arm in arms.arms):
        _run_plain(table, arms, console, simulate, values)
        return _check_orders(arms, values, console)
    found: list[Compared] = []
    ordered = sorted(arms.arms, key=lambda arm: not arm.published)
    for arm in ordered:
        if not arm.published and any(each.is_off for each in found):
            console.print("not reproduced within 10 %: what is ours is not shown", style="red")
            break
        values[arm.name] = _figures(table, arms, arm, simulate)
        found += compare(arms, arm, values)
        show_table(_table(arm, [each for each in found if each.arm == arm.name]), console)
    for each in found:
        if each.excuse:
            console.print(f"not calibrated: {each.arm}: {each.figure}: {each.excuse}", highlight=False, soft_wrap=True)
    if any(each.is_off for each in found):
        return EXIT_NOT_REPRODUCED
    return _check_orders(arms, values, console)


def _run_plain(table: dict[str, Any], arms: Arms, console: Console, simulate: Any, values: dict[str, Figures]) -> None:
    """Nothing was published: one table of all arms."""
    shown = Table()
    shown.add_column("", no_wrap=True)
    for figure in arms.figures:
        shown.add_column(escape(figure), justify="right")
    for arm in arms.arms:
        figures = values[arm.name] = _figures(table, arms, arm, simulate)
        shown.add_row(escape(arm.name), *[f"{figures.value(name):.4g}" for name in arms.figures])
    show_table(shown, console)


def _check_orders(arms: Arms, values: dict[str, Figures], console: Console) -> int:
    code = 0
    for order in arms.orders:
        text, holds = check(order, values)
        console.print(text, style=None if holds else "red", highlight=False, soft_wrap=True, markup=False)
        code = code if holds else EXIT_NOT_REPRODUCED
    return code


def _figures(table: dict[str, Any], arms: Arms, arm: Arm, simulate: Any) -> Figures:
    if arms.goodput is None:
        scenario = scenario_of(table, arm)
        return Figures(_run(scenario, simulate), slo_of(scenario.slo))
    return _at_highest_rate(table, arms.goodput, arm, simulate)


def _at_highest_rate(table: dict[str, Any], search: RateSearch, arm: Arm, simulate: Any) -> Figures:
    """Of the run at the highest rate that keeps the SLO; if none does, at the lowest that was tried."""
    scenario = scenario_of(table, arm)
    slo = slo_of(scenario.slo)
    if slo == NO_SLO:
        raise BadScenario(scenario.name, "a search of the highest rate that keeps one needs one", "slo")
    tried: dict[float, Figures] = {}

    def keeps(rate: float) -> bool:
        run = _run(scenario_of(table, at_rate(arm, rate)), simulate)
        is_kept = kept_share(run.facts, slo) >= search.share
        tried[rate] = Figures(run, slo, rate if is_kept else 0.0)
        return is_kept

    return tried[highest_rate(keeps, search.most, search.within) or min(tried)]


def _run(scenario: RunScenario, simulate: Any) -> FleetRun:
    run: FleetRun = simulate(scenario, load_of(scenario))
    return run


def _table(arm: Arm, rows: list[Compared]) -> Table:
    shown = Table(title=escape(arm.name), title_justify="left", title_style="bold")
    for head in ("figure", "published", "simulated", "difference", ""):
        shown.add_column(head, justify="left" if head in ("figure", "") else "right")
    for row in rows:
        published = "" if row.published is None else f"{row.published:.4g}"
        difference = "" if not row.published else f"{row.simulated / row.published - 1:+.1%}"
        verdict = "not calibrated" if row.excuse else "off" if row.is_off else ""
        shown.add_row(escape(row.figure), published, f"{row.simulated:.4g}", difference, verdict)
    return shown
