"""`baton sim`: a performance run on executors of which only the time is modelled, reported as a load is.

Exit codes: 0; 1 no request succeeded, a law of the system was broken, or the figures or files could not be written; 2
nothing could be run; 130 interrupted: what was simulated by then is reported.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from baton.core.metrics.intervals import over_runs
from baton.core.metrics.report import Report
from baton.core.sim.env import Violation
from baton.core.sim.fleet_run.arms import scenario_of, split_arms
from baton.core.sim.fleet_run.parts import load_parts
from baton.core.sim.fleet_run.run import FleetRun, run_fleet
from baton.core.sim.fleet_run.scenario_file import RunScenario, make_scenario
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.fleet_run.world import FactsAlone, Recorder
from baton.core.sim.step_time.model import StepUnknown
from baton.services.loadgen.console import Output, show_report
from baton.services.loadgen.interrupts import EXIT_INTERRUPTED
from baton.services.loadgen.out_folder import taken
from baton.services.loadgen.refusals import EXIT_REFUSED, or_refused
from baton.services.loadgen.results import FILES
from baton.services.sim.arms import check_settings, run_arms
from baton.services.sim.compiled import is_in_use
from baton.services.sim.ground_truth import KEY, run_ground_truth
from baton.services.sim.load import SimLoad, idle_time, load_of
from baton.services.sim.outcome import tell_and_keep
from baton.services.sim.results import make_report, write_files
from baton.services.sim.run_flags import BadCommand, SimAsked, check_told, list_known, parse, table_of, told_settings
from baton.services.sim.seeds import depends_on_seed, figures_of, other_seeds
from baton.services.sim.stopping import Stopping

EXIT_FAILED = 1
SHOW_EVERY_S = 0.2
ALIKE = (
    "nothing in this run depends on the seed, so {} seeds are one run: it was made once, and intervals are of its parts"
)


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    if asked.list:
        print(list_known())
        return 0
    return or_refused("sim", lambda: _try_run(asked))


def _try_run(asked: SimAsked) -> int:
    try:
        return _run(asked, Output(), Output(stderr=True))
    except StepUnknown as error:
        print(f"baton sim: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except Violation as violation:
        print(f"baton sim: a law of the system was broken: {violation}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("baton sim: interrupted, and nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run(asked: SimAsked, console: Console, errors: Console) -> int:
    if asked.steps and not asked.out:
        raise BadCommand("--steps: they are written to the folder of --out")
    table = table_of(asked)
    if asked.data and KEY not in table:
        raise BadCommand("--data: only for a scenario that is compared with a measured run")
    arms = split_arms(table)
    plain = {name: value for name, value in table.items() if name != KEY}
    scenarios = [make_scenario(plain)] if arms is None else [scenario_of(plain, arm) for arm in arms.arms]
    check_told(asked.settings, scenarios)
    if arms is not None:
        if asked.out:
            raise BadCommand("--out: a scenario with arms prints its figures and writes no files")
        for line in check_settings(told_settings(asked), arms):
            errors.print(f"baton sim: {line}", markup=False, highlight=False, soft_wrap=True)
        shown = errors if errors.is_terminal else None
        return run_arms(table, arms, console, lambda scenario, load: simulate(scenario, load, shown))
    if KEY in table:
        if asked.out or asked.seeds is not None:
            raise BadCommand("--out, --seeds: a scenario with measured figures prints them of one run")
        shown = errors if errors.is_terminal else None
        return run_ground_truth(table, asked.data, console, lambda scenario, load: simulate(scenario, load, shown))
    return _run_scenario(make_scenario(table), asked, console, errors)


def _run_scenario(scenario: RunScenario, asked: SimAsked, console: Console, errors: Console) -> int:
    load, fleet = load_of(scenario), scenario.fleet()
    with taken(asked.out, FILES, "run") as folder:
        return _run_into(folder, scenario, load, fleet, asked, console, errors)


def _run_into(
    folder: Path | None,
    scenario: RunScenario,
    load: SimLoad,
    fleet: FleetSpec,
    asked: SimAsked,
    console: Console,
    errors: Console,
) -> int:
    is_once = scenario.seeds == 1 or not depends_on_seed(scenario, fleet, load.plan)
    if idle := idle_time(load.plan, fleet):
        errors.print(f"baton sim: {idle}", markup=False, highlight=False, soft_wrap=True)
    shown = errors if errors.is_terminal else None
    began_at = time.perf_counter()
    with Stopping() as stopping:
        run = simulate(scenario, load, shown, recorder=None if asked.steps else FactsAlone(), stopping=stopping)
        took_s = time.perf_counter() - began_at
        others = [] if is_once or stopping.is_asked else _others(scenario, shown, stopping)
    spread = over_runs([figures_of(scenario, run), *others]) if others else None
    notes = [ALIKE.format(scenario.seeds)] if is_once and scenario.seeds > 1 else []
    report = make_report(scenario, fleet, load.plan, run, spread, notes)

    def keep(folder: Path) -> list[Path]:
        return write_files(folder, report, run, asked.steps)

    is_kept = tell_and_keep("sim", lambda: _show(scenario, report, run, console), folder, keep, console, errors)
    text = f"{run.num_events} events in {took_s:.1f} s ({run.num_events / max(took_s, 1e-9):,.0f} a second)"
    text += ", compiled" if is_in_use() else ""
    errors.print(text, highlight=False, soft_wrap=True)
    if stopping.is_asked:
        wanted = 1 if is_once else scenario.seeds
        errors.print(f"baton sim: {_cut(report, 1 + len(others), wanted)}", highlight=False, soft_wrap=True)
        return EXIT_INTERRUPTED
    return 0 if report.summary.counts.succeeded and is_kept else EXIT_FAILED


def _others(scenario: RunScenario, shown: Console | None, stopping: Stopping) -> list[dict[str, float]]:
    """Of the further seeds; a run that was stopped is none."""
    found = []
    for figures in other_seeds(scenario, partial(simulate, console=shown, stopping=stopping)):
        if stopping.is_asked:
            break
        found.append(figures)
    return found


def _cut(report: Report, num_runs: int, wanted: int) -> str:
    if report.summary.counts.is_whole:
        return f"interrupted: {num_runs} of {wanted} seeds were run to their end and are what is told"
    return "interrupted: what had ended by then is told, the rest of the load is cut short or unsent"


def simulate(
    scenario: RunScenario,
    load: SimLoad,
    console: Console | None = None,
    *,
    label: str = "",
    recorder: Recorder | None = None,
    stopping: Stopping | None = None,
) -> FleetRun:
    """One run; its progress on the console if there is one. Raises ServingError, Violation, StepUnknown."""
    parts = load_parts(scenario.parts, scenario.parts_settings)
    run = partial(run_fleet, scenario.fleet(), load.requests, load.phases, scenario.seed, parts, recorder)
    if stopping is not None:
        run = partial(run, is_stopped=lambda: stopping.is_asked)
    if console is None:
        return run()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as shown:
        task = shown.add_task("", total=len(load.requests))
        shown_at = 0.0

        def progress(virtual_s: float, num_ended: int) -> None:
            nonlocal shown_at
            if time.perf_counter() - shown_at > SHOW_EVERY_S:
                shown_at = time.perf_counter()
                text = ", ".join(filter(None, (f"{virtual_s:,.1f} s", label)))
                shown.update(task, completed=num_ended, description=text, refresh=True)

        return run(progress=progress)


def _show(scenario: RunScenario, report: Report, run: FleetRun, console: Console) -> None:
    if scenario.title:
        console.print(escape(scenario.title), highlight=False, soft_wrap=True)
    show_report(report, run.facts, console)
    for use in run.uses:
        text = f"{use.name}: {use.num_steps} steps, computing {use.busy_share:.1%} of the time"
        if use.kv_bytes:
            text += f", {use.kv_bytes / 1e9:,.2f} GB of KV sent"
        if use.occupied_share:
            text += f", loop occupied {use.occupied_share:.1%}"
        console.print(text, highlight=False, soft_wrap=True)
