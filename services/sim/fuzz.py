"""`baton fuzz`: runs many seeds through the simulator and tells the first violations as small stories."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from itertools import count
from multiprocessing import get_context
from typing import Any

from baton.core.sim.mutation import Mutation, install
from baton.services.sim.fuzz_flags import parse
from baton.services.sim.workers import watch_parent

BATCH_SEEDS = 10  #: of a worker; without workers each seed is judged before the next one runs
MAX_STORIES = 3
EXIT_INTERRUPTED = 128 + signal.SIGINT


def run_seeds(seeds: range, mutant: Mutation | None, check_every: int) -> list[Any]:
    """One batch in this process: a Report for each seed."""
    _plant(mutant)
    from baton.core.sim.fuzz import run_seed  # after the planting: it loads the machines

    return [run_seed(seed, check_every=check_every) for seed in seeds]


_planted: list[str] = []


def _plant(mutant: Mutation | None) -> None:
    if mutant is not None and mutant.name not in _planted:
        install(mutant)
        _planted.append(mutant.name)


def _batches(seeds: range | None, first: int, num_seeds: int) -> Iterator[range]:
    """Batches of so many seeds: of a range, or without end."""
    if seeds is None:
        yield from (range(start, start + num_seeds) for start in count(first, num_seeds))
        return
    for start in range(seeds.start, seeds.stop, num_seeds):
        yield range(start, min(seeds.stop, start + num_seeds))


class Search:
    """A search over seeds until the range, the number of events or the patience with violations is spent."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._mutant: Mutation | None = options.planted
        self._ends_at = time.perf_counter() + (options.seconds or float("inf"))
        self.num_seeds = 0
        self.num_events = 0
        self.violations: list[Any] = []
        self.counters: Counter[str] = Counter()

    def run(self) -> None:
        jobs = self._options.jobs
        batches = _batches(self._options.seeds, self._options.first, 1 if jobs == 1 else BATCH_SEEDS)
        if jobs == 1:
            for batch in batches:
                self._take(run_seeds(batch, self._mutant, self._options.check_every))
                if self._is_done():
                    return
        else:
            self._run_parallel(batches)

    def _run_parallel(self, batches: Iterator[range]) -> None:
        jobs = self._options.jobs
        with ProcessPoolExecutor(jobs, get_context("spawn"), watch_parent) as pool:
            running: set[Future[list[Any]]] = set()
            try:
                while True:
                    while len(running) < 2 * jobs and not self._is_done():
                        batch = next(batches, None)
                        if batch is None:
                            break
                        running.add(self._submit(pool, batch))
                    if not running:
                        return
                    done = next(as_completed(running))
                    running.discard(done)
                    self._take(done.result())
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _submit(self, pool: ProcessPoolExecutor, batch: range) -> Future[list[Any]]:
        """Workers are started here and inherit what is blocked: a Ctrl-C is for this process alone."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            return pool.submit(run_seeds, batch, self._mutant, self._options.check_every)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _take(self, reports: list[Any]) -> None:
        """Count these; what a batch found beyond the patience is not told, so that a search ends as it was asked to."""
        for report in reports:
            if len(self.violations) >= self._options.patience:
                return
            self.num_seeds += 1
            self.num_events += report.num_events
            self.counters.update(report.counters)
            if not report.is_good:
                self.violations.append(report)
                # One write: a Ctrl-C can come between the text and the line end of a print.
                sys.stdout.write(f"seed {report.seed}: {report.violation}\n")
                sys.stdout.flush()

    def _is_done(self) -> bool:
        options = self._options
        if options.events is not None and self.num_events >= options.events:
            return True
        return len(self.violations) >= int(options.patience) or time.perf_counter() >= self._ends_at


def tell(seed: int, shrinks: bool, options: argparse.Namespace) -> int:
    """Run one seed and tell its story if it breaks a law."""
    from baton.core.sim.draw import draw_scenario
    from baton.core.sim.fuzz import run, shrink, tell_story

    scenario = draw_scenario(seed)
    report = run(scenario, check_every=1)
    print(f"seed {seed}: {report.num_events} events, {report.virtual_s:.2f} virtual s, digest {report.digest:08x}")
    if options.coverage:
        _print_counters(Counter(report.counters))
    if report.is_good:
        return 0
    print(f"violation: {report.violation}")
    if shrinks:
        scenario, report = shrink(scenario, report.law, check_every=1)
        print(f"smallest: {len(scenario.clients)} clients, faults {[_short(fault) for fault in scenario.faults]}")
        print(f"violation: {report.violation}")
    lines = tell_story(scenario, options.lines, check_every=1)
    print("\n".join(line for line in lines if options.grep in line))
    mutant = f" --mutant {options.mutant}" if options.mutant else ""
    print(f"again: baton fuzz --seed {seed}{mutant}")
    return 1


def _short(fault: Any) -> str:
    return f"{fault.kind}@{fault.at:.3f}({fault.target}, {fault.duration_s} s, {fault.number}, {fault.detail})"


def _print_counters(counters: Counter[str]) -> None:
    for name, number in sorted(counters.items()):
        print(f"  {number:>9}  {name}")


def main(argv: list[str]) -> int:
    """Exit code: 0 if no law was broken, 1 if one was; interrupted, it says what it has done so far."""
    options = parse(argv)
    if options.seed is not None:
        _plant(options.planted)
        return tell(options.seed, not options.no_shrink, options)
    search = Search(options)
    started_at = time.perf_counter()
    is_interrupted = False
    try:
        search.run()
    except KeyboardInterrupt:
        is_interrupted = True
    _tell_search(search, options, time.perf_counter() - started_at)
    if is_interrupted:
        return EXIT_INTERRUPTED
    return 1 if search.violations else 0


def _tell_search(search: Search, options: argparse.Namespace, elapsed_s: float) -> None:
    if options.coverage:
        _print_counters(search.counters)
    rate = search.num_events / elapsed_s
    print(
        f"{search.num_seeds} seeds, {search.num_events} events in {elapsed_s:.1f} s ({rate:.0f} events/s), "
        f"{len(search.violations)} violations"
    )
    for report in search.violations[:MAX_STORIES]:
        print(f"story: baton fuzz --seed {report.seed}" + (f" --mutant {options.mutant}" if options.mutant else ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
