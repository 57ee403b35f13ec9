"""`baton fuzz`: runs many seeds through the simulator and tells the first violations as small stories."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from baton.core.sim.mutation import Mutation, install

CATALOG = Path("tests/mutations/mutants.toml")
BATCH_SEEDS = 10
MAX_STORIES = 3


def load_mutants(path: Path) -> dict[str, Mutation]:
    """The planted defects of a catalog, by name."""
    with path.open("rb") as stream:
        entries = tomllib.load(stream)["mutant"]
    return {entry["name"]: Mutation(**entry) for entry in entries}


def run_seeds(seeds: range, mutant: Mutation | None, check_every: int) -> list[Any]:
    """One batch in this process: a Report for each seed."""
    _plant(mutant)
    from baton.core.sim.fuzz import run_seed  # after the planting: it loads the machines

    return [run_seed(seed, check_every=check_every) for seed in seeds]


def _watch_parent() -> None:
    """A worker ends when its parent does, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_planted: list[str] = []


def _plant(mutant: Mutation | None) -> None:
    if mutant is not None and mutant.name not in _planted:
        install(mutant)
        _planted.append(mutant.name)


def _batches(seeds: range | None, first: int) -> Iterator[range]:
    """Batches of seeds: of a range, or without end."""
    if seeds is None:
        yield from (range(start, start + BATCH_SEEDS) for start in count(first, BATCH_SEEDS))
        return
    for start in range(seeds.start, seeds.stop, BATCH_SEEDS):
        yield range(start, min(seeds.stop, start + BATCH_SEEDS))


class Search:
    """A search over seeds until the range, the number of events or the patience with violations is spent."""

    def __init__(self, options: argparse.Namespace, mutant: Mutation | None) -> None:
        self._options = options
        self._mutant = mutant
        self._ends_at = time.perf_counter() + (options.seconds or float("inf"))
        self.num_seeds = 0
        self.num_events = 0
        self.violations: list[Any] = []
        self.counters: Counter[str] = Counter()

    def run(self) -> None:
        batches = _batches(self._options.seeds, self._options.first)
        if self._options.jobs == 1:
            for batch in batches:
                self._take(run_seeds(batch, self._mutant, self._options.check_every))
                if self._is_done():
                    return
        else:
            self._run_parallel(batches)

    def _run_parallel(self, batches: Iterator[range]) -> None:
        jobs = self._options.jobs
        with ProcessPoolExecutor(jobs, get_context("spawn"), _watch_parent) as pool:
            running: set[Future[list[Any]]] = set()
            while True:
                while len(running) < 2 * jobs and not self._is_done():
                    batch = next(batches, None)
                    if batch is None:
                        break
                    running.add(pool.submit(run_seeds, batch, self._mutant, self._options.check_every))
                if not running:
                    return
                done = next(as_completed(running))
                running.discard(done)
                self._take(done.result())

    def _take(self, reports: list[Any]) -> None:
        for report in reports:
            self.num_seeds += 1
            self.num_events += report.num_events
            self.counters.update(report.counters)
            if not report.is_good:
                self.violations.append(report)
                print(f"seed {report.seed}: {report.violation}", flush=True)

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


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last) + 1 if last else int(first) + 1)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="baton fuzz", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=None, help="a range A..B, both included")
    parser.add_argument("--seed", type=int, default=None, help="one seed, with its story if it breaks a law")
    parser.add_argument("--no-shrink", action="store_true", help="tell the story of the whole scenario")
    parser.add_argument("--lines", type=int, default=80, help="last lines of a story")
    parser.add_argument("--grep", default="", help="only the lines of a story that hold this text")
    parser.add_argument("--first", type=int, default=0, help="first seed of a search without --seeds")
    parser.add_argument("--events", type=int, default=None, help="search until that many events were handled")
    parser.add_argument("--seconds", type=float, default=None, help="search for so long")
    parser.add_argument("--patience", type=int, default=5, help="violations after which the search ends")
    parser.add_argument("--mutant", default="", help="plant this defect of the catalog first")
    parser.add_argument("--catalog", type=Path, default=CATALOG, help="the file with the planted defects")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--check-every", type=int, default=97, help="events between two checks of all invariants")
    parser.add_argument("--coverage", action="store_true", help="print what happened how often")
    options = parser.parse_args(argv)
    if options.seeds is None and options.seed is None and not (options.events or options.seconds):
        options.seeds = range(0, 200)
    return options


def main(argv: list[str]) -> int:
    """Exit code: 0 if no law was broken."""
    options = _parse(argv)
    mutant = load_mutants(options.catalog)[options.mutant] if options.mutant else None
    if options.seed is not None:
        _plant(mutant)
        return tell(options.seed, not options.no_shrink, options)
    search = Search(options, mutant)
    started_at = time.perf_counter()
    search.run()
    elapsed_s = time.perf_counter() - started_at
    if options.coverage:
        _print_counters(search.counters)
    rate = search.num_events / elapsed_s
    print(
        f"{search.num_seeds} seeds, {search.num_events} events in {elapsed_s:.1f} s ({rate:.0f} events/s), "
        f"{len(search.violations)} violations"
    )
    for report in search.violations[:MAX_STORIES]:
        print(f"story: baton fuzz --seed {report.seed}" + (f" --mutant {options.mutant}" if options.mutant else ""))
    return 1 if search.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
