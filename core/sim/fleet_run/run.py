"""One performance run: from a fleet, a load and a seed to the facts of its requests and the records of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from baton.core.errors import ServingError
from baton.core.metrics.executors import ExecutorUse
from baton.core.metrics.facts import RequestFacts
from baton.core.sim.fleet_run.clients import Clients, MakeSchedule
from baton.core.sim.fleet_run.parts import OURS, Parts
from baton.core.sim.fleet_run.request import SimRequest
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.fleet_run.world import FleetWorld, Recorder

LOOK_EVERY = 1000  #: things that happen between two looks at the progress
MAX_AT_ONCE = 2000  #: looks without any progress of time: something circles
Progress = Callable[[float, int], None]  #: seconds since the run began, requests that have ended


class RunStuck(ServingError):
    """Nothing that is left would ever end a request."""


class FleetRun(NamedTuple):
    """A run that is over. Times count from the moment at which the fleet was ready and the load began."""

    facts: list[RequestFacts]  #: in the order of their ends
    recorder: Recorder  #: its times count from the start of the fleet, `began_s` earlier
    began_s: float
    length_s: float
    num_events: int
    uses: list[ExecutorUse]
    counters: Counter[str]
    gauges: dict[str, dict[str, float]]  #: of each process at the end


def run_fleet(
    spec: FleetSpec,
    requests: Sequence[SimRequest],
    phases: Sequence[MakeSchedule],
    seed: int,
    parts: Parts = OURS,
    recorder: Recorder | None = None,
    progress: Progress | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> FleetRun:
    """Runs until the load is over, or it is stopped: then what is open is cut short, and the rest unsent. Raises
    Violation for a fault of the system, RunStuck if requests cannot end."""
    facts: list[RequestFacts] = []
    clients = Clients(requests, phases, facts.append)
    world = FleetWorld(spec, seed, clients.heard, recorder, parts)
    world.start()
    clients.begin(world)
    time = world.env.time
    num_at_once = 0
    while not clients.is_over:
        before = time.now
        if not time.advance(LOOK_EVERY):
            raise RunStuck(f"{clients.num_ended} requests ended, and nothing happens any more")
        num_at_once = num_at_once + 1 if time.now == before else 0
        if num_at_once > MAX_AT_ONCE:
            raise RunStuck(f"{clients.num_ended} requests ended, and time stands still at {time.now:.6f} s")
        if progress is not None:
            progress(time.now - clients.began_at, clients.num_ended)
        if is_stopped():
            clients.cut_short()
            break
    length_s = time.now - clients.began_at
    return FleetRun(
        facts,
        world.recorder,
        clients.began_at,
        length_s,
        world.num_events,
        _uses(world, max(length_s, 1e-9)),
        world.env.counters,
        {name: process.node.machine.gauges() for name, process in world.processes.items()},
    )


def _uses(world: FleetWorld, length_s: float) -> list[ExecutorUse]:
    uses = []
    for process in world.executors():
        compute, wires = process.compute, process.wires
        if compute is not None and wires is not None:
            use = ExecutorUse(
                name=process.name,
                num_steps=compute.num_steps,
                busy_share=compute.busy_s / length_s,
                occupied_share=process.occupied_s / length_s,
                kv_bytes=wires.num_bytes,
            )
            uses.append(use)
    return uses
