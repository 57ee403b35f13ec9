"""`baton sim --scenario NAME` of a scenario with arms: others' figures reproduced first, ours beside them then."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baton.core.sim.fleet_run.arms import Arm, Arms, Compared, Figures, compare, scenario_of
from baton.core.sim.fleet_run.run import FleetRun
from baton.services.sim.load import load_of

EXIT_NOT_REPRODUCED = 1


def run_arms(table: dict[str, Any], arms: Arms, console: Console, simulate: Any) -> int:
    """Arms with published figures first; the others only if those are reproduced. `simulate` makes a run."""
    if not any(arm.published for arm in arms.arms):
        return _run_plain(table, arms, console, simulate)
    values: dict[str, Figures] = {}
    found: list[Compared] = []
    ordered = sorted(arms.arms, key=lambda arm: not arm.published)
    console.print(escape(str(table.get("title", ""))), highlight=False, soft_wrap=True)
    for arm in ordered:
        if not arm.published and any(each.is_off for each in found):
            console.print("not reproduced within 10 %: what is ours is not shown", style="red")
            break
        values[arm.name] = Figures(_run(table, arm, simulate))
        found += compare(arms, arm, values)
        console.print(_table(arm, [each for each in found if each.arm == arm.name]))
    for each in found:
        if each.excuse:
            console.print(f"not calibrated: {each.arm}: {each.figure}: {each.excuse}", highlight=False, soft_wrap=True)
    return EXIT_NOT_REPRODUCED if any(each.is_off for each in found) else 0


def _run_plain(table: dict[str, Any], arms: Arms, console: Console, simulate: Any) -> int:
    """Nothing was published: one table of all arms."""
    console.print(escape(str(table.get("title", ""))), highlight=False, soft_wrap=True)
    shown = Table()
    shown.add_column("", no_wrap=True)
    for figure in arms.figures:
        shown.add_column(escape(figure), justify="right")
    for arm in arms.arms:
        figures = Figures(_run(table, arm, simulate))
        shown.add_row(escape(arm.name), *[f"{figures.value(name):.4g}" for name in arms.figures])
    console.print(shown)
    return 0


def _run(table: dict[str, Any], arm: Arm, simulate: Any) -> FleetRun:
    scenario = scenario_of(table, arm)
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
