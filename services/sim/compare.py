"""`baton compare`: prefill and decode apart against the same hardware as plain replicas, over a range of rates.

Exit codes: 0; 1 no request was good at any rate, a law of the system was broken, or the figures or files could not be
written; 2 nothing could be run; 130 interrupted: the rates that were measured by then are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baton.core.knob_effects import NEEDS
from baton.core.sim.fleet_run.scenario_file import RunScenario, make_scenario
from baton.core.sim.fleet_run.spec import parse_topology
from baton.core.sim.study.measured import GOOD, SHARE, Measured, is_burst
from baton.core.sim.study.rates import Seen, find_rates, parse_rates
from baton.core.sim.study.verdict import AtRate, Named, judge
from baton.services.loadgen.console import Output
from baton.services.loadgen.interrupts import EXIT_INTERRUPTED
from baton.services.loadgen.out_folder import taken
from baton.services.sim.compare_report import Comparison, show, write
from baton.services.sim.many_runs import ManyRuns, default_jobs
from baton.services.sim.outcome import tell_and_keep
from baton.services.sim.run import EXIT_FAILED
from baton.services.sim.run_flags import BadCommand, new_parser, parsed
from baton.services.sim.study_command import run_study
from baton.services.sim.study_flags import Study, add_study_flags, base_table, bound_of, seeds_of
from baton.services.sim.study_load import SPEED, Axis, at_rate, axis_of, fixed_settings, light_rate

NAME = "compare"
FILES = ("compare.json", "compare.csv", "compare.html")
DESCRIPTION = """\
Is it worth it to compute prompts on executors of their own, for this load? Runs a P/D topology and plain replicas (each
computes prompts and answers, in mixed batches, placed where prefixes are cached) under the same load at several rates,
and says which serves more requests within the SLO, why, and where this turns.

  baton compare --topology 2P2D --profile a100-opt13b-tp1 --slo ttft=1s,itl=60ms \\
      --synthetic "num_requests=300 input_tokens=normal:512,200,50-1500 output_tokens=normal:128,60,10-400"
  baton compare --scenario small --topology 1P1D --against 2U --rates 1:8:1.5x --out comparison
  baton compare --topology 6P2D --profile h100-llama70b-tp8 --trace conversations.jsonl --slo ttft=2s,tpot=50ms
"""
#: knobs of unified executors that are of another mode than mixed steps
_NOT_PLAIN = {knob for knob, needs in NEEDS.items() if any("step_mode" in why for why, _ in needs)}

Key = tuple[int, float, int]  #: which deployment, rate, seed


class Asked(Study, frozen=True, kw_only=True):
    """What the command line says."""

    against: str = ""
    rates: str = ""


def parse(arguments: list[str]) -> Asked:
    """Exits where argparse does."""
    parser = new_parser(NAME, DESCRIPTION)
    parser.add_argument("--topology", required=True, metavar="2P2D", help="executors: P prefill, D decode (and U both)")
    parser.add_argument("--against", metavar="4U", help="the replicas; as many as the topology has executors")
    parser.add_argument(
        "--rates", metavar="1:16:1.5x", help="or A,B,…, or FROM:TO:STEP; found if not given. Of a trace: its speed"
    )
    add_study_flags(parser, ", ".join(FILES))
    return parsed(parser, arguments, Asked)


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    return run_study(NAME, lambda console, errors: _compare(asked, console, errors))


def _compare(asked: Asked, console: Output, errors: Output) -> int:
    comparing = Comparing(asked)
    with taken(asked.out, FILES, "study") as folder:
        return _compare_into(folder, comparing, asked, console, errors)


def _compare_into(folder: Path | None, comparing: Comparing, asked: Asked, console: Output, errors: Output) -> int:
    is_interrupted = False
    try:
        with ManyRuns(asked.jobs or default_jobs(), errors if errors.is_terminal else None) as runs:
            comparing.run(runs)
    except KeyboardInterrupt:
        is_interrupted = True
    found = comparing.measured()
    if not found:
        errors.print(f"baton {NAME}: interrupted before a rate was measured", highlight=False, soft_wrap=True)
        return EXIT_INTERRUPTED
    comparison = comparing.comparison(found)

    def keep(folder: Path) -> list[Path]:
        return write(folder, FILES, comparison)

    is_kept = tell_and_keep(NAME, lambda: show(comparison, console), folder, keep, console, errors)
    if is_interrupted:
        text = f"interrupted: {len(found)} rates were measured by then and are what is told"
        errors.print(f"baton {NAME}: {text}", highlight=False, soft_wrap=True)
        return EXIT_INTERRUPTED
    is_good = any(run.figures.get(GOOD) for at in found for run in (*at.first, *at.second))
    return 0 if is_good and is_kept else EXIT_FAILED


class Comparing:
    """What is compared, and what is measured of it so far. Raises ServingError for what makes no comparison."""

    def __init__(self, asked: Asked) -> None:
        first = base_table(asked, asked.topology)
        if not any(role.name == "PREFILL" for role, _ in parse_topology(asked.topology)):
            raise BadCommand(f"--topology {asked.topology}: it has no prefill executors, as 2P2D has")
        self.tables = first, plain_table(first, asked.against or _as_many(make_scenario(first)))
        self.fleets = [make_scenario(table).fleet() for table in self.tables]
        self.axis: Axis = axis_of(first)
        self.slo = bound_of(first)
        self.seeds = seeds_of(asked, first, is_trace=self.axis is SPEED)
        self.rates = parse_rates(asked.rates) if asked.rates else ()
        self.light = 0.0 if asked.rates else light_rate(first, self.axis, self.fleets[0])
        self._found: dict[Key, Measured] = {}

    def run(self, runs: ManyRuns) -> None:
        if not self.rates:
            self.rates = self._find(runs)
        self._measure(runs, [(rate, seed) for rate in self.rates for seed in self.seeds], "runs")

    def measured(self) -> list[AtRate]:
        """The rates at which all runs have ended, in their order; of an interrupted search, those that it looked at."""
        seeds = self.seeds if self.rates else self.seeds[:1]
        rates = self.rates or sorted({rate for _, rate, _ in self._found})
        whole = [rate for rate in rates if all((side, rate, seed) in self._found for side in (0, 1) for seed in seeds)]
        return [AtRate(rate, *([self._found[side, rate, seed] for seed in seeds] for side in (0, 1))) for rate in whole]

    def comparison(self, found: Sequence[AtRate]) -> Comparison:
        names = [str(table["topology"]).upper() for table in self.tables]
        named = Named(names[0], names[1], self.axis.unit)
        return Comparison(
            named=named,
            found=found,
            slo=self.slo,
            seeds=self.seeds if self.rates else self.seeds[:1],
            verdict=judge(found, named, self.slo),
            settings=[fixed_settings(make_scenario(table), self.axis) for table in self.tables],
            sources=tuple(sorted({group.profile.source for fleet in self.fleets for group in fleet.groups})),
        )

    def _find(self, runs: ManyRuns) -> tuple[float, ...]:
        search = find_rates(self.light)
        rate = next(search)
        while True:
            self._measure(runs, [(rate, self.seeds[0])], f"looking for rates: {rate:g} {self.axis.unit}")
            runs_there = [self._found[side, rate, self.seeds[0]] for side in (0, 1)]
            shares = [run.figures.get(SHARE, 0.0) for run in runs_there]
            try:
                rate = search.send(Seen(shares, all(is_burst([run]) for run in runs_there)))
            except StopIteration as end:
                rates: tuple[float, ...] = end.value
                return rates

    def _measure(self, runs: ManyRuns, wanted: Sequence[tuple[float, int]], said: str) -> None:
        """Both deployments at these rates and seeds, as far as it is not known yet."""
        keys = [(side, rate, seed) for rate, seed in wanted for side in (0, 1)]
        missing = [key for key in keys if key not in self._found]
        tables = [at_rate(self.tables[side], self.axis, rate, seed) for side, rate, seed in missing]
        runs.measure(tables, said, lambda index, measured: self._found.update({missing[index]: measured}))


def plain_table(table: dict[str, Any], topology: str) -> dict[str, Any]:
    """The same with replicas that compute prompts and answers in mixed batches, unless the scenario gives unified
    executors a mode of their own. Raises BadCommand, BadScenario."""
    if any(role.name != "UNIFIED" for role, _ in parse_topology(topology)):
        raise BadCommand(f"--against {topology}: replicas such as 4U")
    own = dict(table.get("unified") or {})
    if "step_mode" not in own:
        own = {knob: value for knob, value in own.items() if knob not in _NOT_PLAIN} | {"step_mode": "mixed"}
    made = {**table, "topology": topology, "unified": own}
    make_scenario(made)
    return made


def _as_many(scenario: RunScenario) -> str:
    groups = scenario.fleet().groups
    if len({group.profile.name for group in groups}) > 1:
        raise BadCommand("--against: the executors' profiles differ, so say which replicas are the same hardware")
    return f"{sum(group.count for group in groups)}U"
