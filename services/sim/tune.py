"""`baton tune`: which topology and knobs serve the most requests within an SLO, of a number of executors.

Exit codes: 0; 1 no settings hold any rate, a law of the system was broken, or the figures or files could not be
written; 2 nothing could be run; 130 interrupted: the best that was found by then is reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from baton.core.errors import ServingError
from baton.core.sim.fleet_run.scenario_file import make_scenario, set_value
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.study.candidates import DEFAULT_KNOBS, Candidate, parse_knobs, topologies
from baton.core.sim.study.search import Ask, Search
from baton.services.loadgen.console import Output
from baton.services.loadgen.interrupts import EXIT_INTERRUPTED
from baton.services.loadgen.out_folder import taken
from baton.services.sim.many_runs import ManyRuns, default_jobs
from baton.services.sim.outcome import tell_and_keep
from baton.services.sim.run import EXIT_FAILED
from baton.services.sim.run_flags import BadCommand, check_told, new_parser, parsed
from baton.services.sim.study_command import run_study
from baton.services.sim.study_flags import Study, add_study_flags, base_table, bound_of, seeds_of
from baton.services.sim.study_load import SPEED, at_rate, axis_of, fixed_settings, light_rate
from baton.services.sim.tune_report import Tuned, show, write

NAME = "tune"
FILES = ("tune.json", "tune.csv", "tune.html", "tune.toml")
DEFAULT_BUDGET, MOST_EXECUTORS = 400, 64
DESCRIPTION = """\
Which split of executors, and which knobs, serve the most requests within the SLO? Tries every split into prefill and
decode executors and as many plain replicas, then knobs on the best of them, each at the highest rate that it holds: at
least 90 % of the requests are good. Prints what it found, and the settings for `baton up --config`.

  baton tune --executors 4 --profile a100-opt13b-tp1 --slo ttft=1s,itl=60ms --out tuned \\
      --synthetic "num_requests=300 input_tokens=normal:512,200,50-1500 output_tokens=normal:128,60,10-400"
  baton tune --executors 3 --scenario small --knobs "decode.num_slots=32,64 scheduler.placement=predicted,always_pd"
"""


class Asked(Study, frozen=True, kw_only=True):
    """What the command line says."""

    executors: int = 0
    knobs: tuple[str, ...] | None = None
    budget: int = DEFAULT_BUDGET


def parse(arguments: list[str]) -> Asked:
    """Exits where argparse does."""
    parser = new_parser(NAME, DESCRIPTION)
    parser.add_argument("--executors", required=True, type=int, metavar="N", help="how many there are to split")
    parser.add_argument(
        "--knobs", action="append", metavar="KNOB=A,B",
        help='values to try: "decode.num_slots=32,64 …"; nothing: topologies alone; a short list if not given',
    )  # fmt: skip
    parser.add_argument("--budget", type=int, metavar="RUNS", help=f"of the search at most ({DEFAULT_BUDGET})")
    add_study_flags(parser, ", ".join(FILES))
    return parsed(parser, arguments, Asked)


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    return run_study(NAME, lambda console, errors: _tune(asked, console, errors))


def _tune(asked: Asked, console: Output, errors: Output) -> int:
    tuning = Tuning(asked)
    with taken(asked.out, FILES, "study") as folder:
        return _tune_into(folder, tuning, asked, console, errors)


def _tune_into(folder: Path | None, tuning: Tuning, asked: Asked, console: Output, errors: Output) -> int:
    is_interrupted, is_kept = False, True
    try:
        with ManyRuns(asked.jobs or default_jobs(), errors if errors.is_terminal else None) as runs:
            tuning.run(runs)
    except KeyboardInterrupt:
        is_interrupted = True
        text = f"interrupted after {len(tuning.search.results)} runs: what was found by then is told"
        errors.print(f"baton {NAME}: {text}", highlight=False, soft_wrap=True)
    if tuning.search.results:
        tuned = tuning.tuned(is_interrupted)

        def keep(folder: Path) -> list[Path]:
            return write(folder, FILES, tuned)

        is_kept = tell_and_keep(NAME, lambda: show(tuned, console), folder, keep, console, errors)
    if is_interrupted:
        return EXIT_INTERRUPTED
    return 0 if tuning.search.finalists() and is_kept else EXIT_FAILED


class Tuning:
    """What is searched, and how its runs are made. Raises ServingError for what makes no search."""

    def __init__(self, asked: Asked) -> None:
        for name, value, most in (("executors", asked.executors, MOST_EXECUTORS), ("budget", asked.budget, 100_000)):
            if not 1 <= value <= most:
                raise BadCommand(f"--{name} {value}: from 1 to {most}")
        self.executors = asked.executors
        self.table = base_table(asked, f"{asked.executors}U")
        self.axis = axis_of(self.table)
        self.slo = bound_of(self.table)
        self.seeds = seeds_of(asked, self.table, is_trace=self.axis is SPEED)
        knobs = DEFAULT_KNOBS if asked.knobs is None else parse_knobs(asked.knobs)
        names = topologies(asked.executors)
        check_told(asked.settings, [make_scenario(self._settings(Candidate(name))) for name in names])
        fleets = [self._fleet(Candidate(name)) for name in names]
        for knob, values in knobs.items() if asked.knobs is not None else ():
            self._check(knob, values, names)
        light = light_rate(self.table, self.axis, fleets[-1])
        self.search = Search(names, knobs, self.resolve, light, self.seeds, asked.budget)

    def run(self, runs: ManyRuns) -> None:
        steps = self.search.run()
        asked = next(steps, None)
        while asked:
            said = f"{self.search.stage}, {len(self.search.results)} runs so far"
            found = runs.measure([self._table(ask) for ask in asked], said)
            try:
                asked = steps.send(found)
            except StopIteration:
                return

    def resolve(self, candidate: Candidate) -> FleetSpec | None:
        """None where its knobs contradict each other."""
        try:
            return self._fleet(candidate)
        except ServingError:
            return None

    def tuned(self, is_interrupted: bool) -> Tuned:
        best = self.search.finalists()
        return Tuned(
            search=self.search,
            unit=self.axis.unit,
            slo=self.slo,
            seeds=self.seeds,
            executors=self.executors,
            settings=self._shown(best[0] if best else None),
            fleet=self._fleet(best[0]) if best else None,
            is_interrupted=is_interrupted,
        )

    def _check(self, knob: str, values: tuple[str, ...], names: list[str]) -> None:
        """Raises ServingError for a knob or a value that no topology takes; some values need other knobs besides."""
        concerned = [candidate for name in names if (candidate := Candidate(name)).concerns(knob)]
        if not concerned:
            raise BadCommand(f"--knobs {knob}: it has no effect on any of {', '.join(names)}")
        for value in values:
            tried = [each.having(knob, value) for each in concerned]
            if all(self.resolve(each) is None for each in tried):
                self._fleet(tried[0])

    def _settings(self, candidate: Candidate) -> dict[str, Any]:
        table: dict[str, Any] = msgspec.to_builtins(self.table)
        table["topology"] = candidate.topology
        for knob, value in candidate.knobs:
            set_value(table, f"{knob}={value}")
        return table

    def _shown(self, best: Candidate | None) -> dict[str, Any]:
        """Of the best, or of nobody: what is the same in all of its runs."""
        table = self.table if best is None else self._settings(best)
        found = fixed_settings(make_scenario(table), self.axis)
        return found if best is not None else {name: value for name, value in found.items() if name != "topology"}

    def _fleet(self, candidate: Candidate) -> FleetSpec:
        return make_scenario(self._settings(candidate)).fleet()

    def _table(self, ask: Ask) -> dict[str, Any]:
        return at_rate(self._settings(ask.candidate), self.axis, self.search.rate(ask.step), ask.seed)
