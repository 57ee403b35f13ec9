"""Many performance runs, several at once in processes of their own. What they measure depends on the runs alone, never
on how many there are at once or which one ends first."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import active_children, get_context
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from baton.core.errors import ServingError
from baton.core.sim.env import Violation
from baton.core.sim.fleet_run.parts import load_parts
from baton.core.sim.fleet_run.run import run_fleet
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.core.sim.step_time.model import StepUnknown
from baton.core.sim.study.measured import Measured, measure
from baton.services.loadgen.bench_settings import slo_of
from baton.services.sim.compiled import is_in_use
from baton.services.sim.load import load_of
from baton.services.sim.workers import begin

Table = Mapping[str, Any]  #: of a scenario


class RunFailed(ServingError):
    """A run could not be made, or came to no end."""


class Broken(RunFailed):
    """A run broke a law of the system."""


def run_once(table: Table) -> Measured:
    """One run in this process. Raises RunFailed."""
    try:
        scenario = make_scenario(dict(table))
        load, fleet = load_of(scenario), scenario.fleet()
        parts = load_parts(scenario.parts, scenario.parts_settings)
        run = run_fleet(fleet, load.requests, load.phases, scenario.seed, parts)
        return measure(run, fleet, slo_of(scenario.slo))
    except Violation as violation:
        raise Broken(f"a law of the system was broken: {violation}") from violation
    except (ServingError, StepUnknown, OSError) as error:
        # of one text, so that it comes through from another process
        raise RunFailed(str(error)) from None


class ManyRuns:
    """A context: on the way out its processes end, at once if there was an exception."""

    def __init__(self, jobs: int, shown: Console | None) -> None:
        self.num_runs = 0  #: that have ended
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._foreign = set(active_children())
        self._progress: Progress | None = None
        if shown is not None:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._progress = Progress(*columns, console=shown, transient=True)

    def __enter__(self) -> ManyRuns:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()
        if self._pool is None:
            return
        if kind is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(active_children()) - self._foreign:
                worker.terminate()
        self._pool.shutdown(wait=True)

    def measure(
        self, tables: Sequence[Table], said: str, tell: Callable[[int, Measured], None] = lambda index, found: None
    ) -> list[Measured]:
        """In their order. `said` stands beside the progress; `tell` hears of each run as soon as it has ended. Raises
        RunFailed."""
        found: dict[int, Measured] = {}
        task = None if self._progress is None else self._progress.add_task(said, total=len(tables))

        def ended(index: int, measured: Measured) -> None:
            found[index] = measured
            self.num_runs += 1
            tell(index, measured)
            if self._progress is not None and task is not None:
                self._progress.advance(task)

        if self._jobs == 1 or len(tables) == 1:
            for index, table in enumerate(tables):
                ended(index, run_once(table))
        else:
            self._run_parallel(tables, ended)
        if self._progress is not None and task is not None:
            self._progress.remove_task(task)
        return [found[index] for index in range(len(tables))]

    def _run_parallel(self, tables: Sequence[Table], ended: Callable[[int, Measured], None]) -> None:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._jobs, get_context("spawn"), begin, (is_in_use(),))
        # workers are started here and inherit what is blocked: a Ctrl-C is for this process alone
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            waiting: dict[Future[Measured], int] = {
                self._pool.submit(run_once, table): index for index, table in enumerate(tables)
            }
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                ended(waiting.pop(future), future.result())


def default_jobs() -> int:
    return len(os.sched_getaffinity(0))
