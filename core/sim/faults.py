"""What can go wrong, one function for each kind. A fault acts on a world at its time, for as long as it says.

`target` chooses among the processes (or connections) that are there, modulo their number.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from baton.core.executor.events import Drain
from baton.core.sim.process import Process
from baton.core.sim.scenario import Fault

if TYPE_CHECKING:
    from baton.core.sim.link import Direction
    from baton.core.sim.world import World

STAGES = ("launch", "create", "record", "wait", "collect")


def draw_faults(rng: Random, arrivals: list[float], until: float) -> tuple[Fault, ...]:
    """Each kind is on in about a third of the scenarios and has a rate of its own. Most come soon after an arrival."""
    faults = []
    for kind in FAULTS:
        if rng.random() < 0.65:
            continue
        for _ in range(rng.choice((1, 1, 2, 4, 8) if kind in GENTLE else (1, 1, 2, 3))):
            faults.append(
                Fault(
                    at=min(until - 0.01, _draw_time(rng, arrivals, until)),
                    kind=kind,
                    target=rng.randrange(1 << 16),
                    duration_s=rng.choice((0.01, 0.05, 0.2, 1.2, 1.8)),
                    number=rng.randint(1, 3),
                    detail=rng.choice(STAGES),
                )
            )
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _draw_time(rng: Random, arrivals: list[float], until: float) -> float:
    if rng.random() < 0.2:
        return rng.uniform(0.02, until)
    return rng.choice(arrivals) + rng.choice((0.005, 0.05, 0.4)) * rng.random()


def inject(world: World, fault: Fault) -> None:
    """The fault happens now."""
    world.env.tell(f"fault {fault.kind} target={fault.target} for {fault.duration_s} s number={fault.number}")
    if FAULTS[fault.kind](world, fault):
        world.env.counters[f"fault {fault.kind}"] += 1
        world.oracle.fault_kinds.add(fault.kind)


def _pick(processes: list[Process], fault: Fault) -> Process | None:
    return processes[fault.target % len(processes)] if processes else None


def _busy_first(world: World, fault: Fault) -> list[Process]:
    """Often the executors that are computing or writing right now, if there are any."""
    executors = world.executors()
    busy = [p for p in executors if p.device is not None and not (p.device.is_idle and p.transfer_of().is_idle)]
    return busy if busy and fault.detail < "l" else executors


def _kill(world: World, fault: Fault, processes: list[Process]) -> bool:
    process = _pick(processes, fault)
    if process is None:
        return False
    world.kill(process, restart_after_s=fault.duration_s, told_after_s=0.02 * fault.number)
    return True


def kill_executor(world: World, fault: Fault) -> bool:
    """It dies now, its exit is seen `number` × 20 ms later (if anybody looks), it is back after `duration_s`."""
    return _kill(world, fault, _busy_first(world, fault))


def kill_scheduler(world: World, fault: Fault) -> bool:
    return _kill(world, fault, world.alive("scheduler"))


def kill_router(world: World, fault: Fault) -> bool:
    return _kill(world, fault, world.routers())


def stop_process(world: World, fault: Fault) -> bool:
    """SIGSTOP for `duration_s`."""
    processes = _busy_first(world, fault) if fault.number > 1 else list(world.processes.values())
    process = _pick([p for p in processes if p.is_alive and not p.is_stopped], fault)
    if process is None:
        return False
    process.stop()
    world.env.time.after(fault.duration_s, process.go_on)
    return True


def cut_link(world: World, fault: Fault) -> bool:
    """A connection breaks and comes back after `duration_s`."""
    connections = world.network.connections
    if not connections:
        return False
    world.network.cut(connections[fault.target % len(connections)], fault.duration_s)
    return True


def _direction(world: World, fault: Fault) -> Direction | None:
    """One direction of the connection that the fault names, or None where there is no connection."""
    connections = world.network.connections
    if not connections:
        return None
    connection = connections[fault.target % len(connections)]
    return connection.up if fault.detail < "l" else connection.down


def lose_frames(world: World, fault: Fault) -> bool:
    """The next `number` frames of a direction vanish."""
    direction = _direction(world, fault)
    if direction is not None:
        direction.num_to_lose += fault.number
    return direction is not None


def double_frames(world: World, fault: Fault) -> bool:
    """The next `number` frames of a direction come twice."""
    direction = _direction(world, fault)
    if direction is not None:
        direction.num_to_double += fault.number
    return direction is not None


def spoil_frames(world: World, fault: Fault) -> bool:
    """Something else comes in place of the next `number` frames of a direction."""
    direction = _direction(world, fault)
    if direction is not None:
        direction.num_to_spoil += fault.number
    return direction is not None


def fill_link(world: World, fault: Fault) -> bool:
    """The next frame of a direction finds a full socket."""
    direction = _direction(world, fault)
    if direction is not None:
        direction.is_full = True
    return direction is not None


def slow_steps(world: World, fault: Fault) -> bool:
    """Steps of an executor take 10 × `number` longer for `duration_s`."""
    process = _pick(world.executors(), fault)
    if process is None or process.device is None:
        return False
    device = process.device
    device.lanes.slow_factor = 10.0 * fault.number

    def recover() -> None:
        device.lanes.slow_factor = 1.0

    world.env.time.after(fault.duration_s, recover)
    return True


def fail_step(world: World, fault: Fault) -> bool:
    """The next step of an executor fails at stage `detail`."""
    process = _pick(world.executors(), fault)
    if process is None or process.device is None:
        return False
    process.device.lanes.failures.append(fault.detail)
    return True


def fail_pieces(world: World, fault: Fault) -> bool:
    """The next `number` pieces of an executor end in an error, some after part of them landed."""
    process = _pick([p for p in world.executors() if p.transfer is not None], fault)
    if process is None:
        return False
    process.transfer_of().num_failing_pieces += fault.number
    return True


def fail_transport(world: World, fault: Fault) -> bool:
    """The next agent or connection of an executor cannot be made."""
    process = _pick([p for p in world.executors() if p.transfer is not None], fault)
    if process is None:
        return False
    if fault.number == 1:
        process.transfer_of().num_failing_opens += 1
    else:
        process.transfer_of().num_failing_connects += 1
    return True


def drain(world: World, fault: Fault) -> bool:
    """An operator drains an executor, and restarts it `duration_s` after it has come to rest."""
    process = _pick(world.executors(), fault)
    if process is None:
        return False
    process.hand(Drain())
    world.restart_when_quiet(process, fault.duration_s)
    return True


FAULTS: dict[str, Callable[[World, Fault], bool]] = {
    "kill executor": kill_executor,
    "kill scheduler": kill_scheduler,
    "kill router": kill_router,
    "stop": stop_process,
    "cut": cut_link,
    "lose": lose_frames,
    "double": double_frames,
    "spoil": spoil_frames,
    "full": fill_link,
    "slow": slow_steps,
    "step": fail_step,
    "piece": fail_pieces,
    "transport": fail_transport,
    "drain": drain,
}
GENTLE = ("cut", "lose", "double", "spoil", "full", "piece", "transport")
