"""One run of bench/simulator.py, in a process of its own: what it takes, and where its time goes."""

from __future__ import annotations

import resource
import signal
import time
from collections import Counter
from types import FrameType
from typing import Any

from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.core.sim.fleet_run.world import FactsAlone
from baton.services.sim.compiled import is_in_use
from baton.services.sim.load import load_of
from baton.services.sim.results import make_report
from baton.services.sim.run import simulate

SAMPLE_S = 0.002  #: of CPU time between two looks at where the program is
MIB = 1024.0  #: kibibytes, in which Linux counts


class Sampler:
    """Which module the program is in, again and again."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)

    def shares(self) -> dict[str, float]:
        total = max(1, self.counts.total())
        return {name: round(count / total, 4) for name, count in self.counts.most_common()}

    def _look(self, _: int, frame: FrameType | None) -> None:
        name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
        parts = name.split(".")
        of_baton = ".".join(parts[1:3]) if parts[0] == "baton" else "libraries"
        self.counts[of_baton] += 1


def run_one(told: dict[str, Any]) -> dict[str, Any]:
    """One run, reported as the command does it, without files."""
    scenario = make_scenario(told["table"])
    load = load_of(scenario)
    sampler = Sampler() if told["samples"] else None
    began_at = time.process_time()
    if sampler is not None:
        sampler.start()
    run = simulate(scenario, load, recorder=FactsAlone())
    if sampler is not None:
        sampler.stop()
    run_s = time.process_time() - began_at
    report = make_report(scenario, scenario.fleet(), load.plan, run)
    num_tokens = sum(row.num_output_tokens for row in run.facts)
    return {
        "compiled": is_in_use(),
        "requests": report.summary.counts.planned,
        "succeeded": report.summary.counts.succeeded,
        "virtual_s": round(run.length_s, 1),
        "events": run.num_events,
        "output_tokens": num_tokens,
        "run_cpu_s": round(run_s, 2),
        "cpu_s": round(time.process_time(), 2),  # of the whole process: its start, the load, the report
        "events_per_s": round(run.num_events / run_s),
        "tokens_per_s": round(num_tokens / run_s),
        "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB),
        "shares": sampler.shares() if sampler is not None else {},
    }
