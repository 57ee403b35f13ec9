"""One run of a scenario from start to proof of rest, and how a failing one is made small.

Safety is judged at every event. When the faults stop, liveness follows: within bounded virtual time every request has
its end and every process is at rest, its credit whole; then a canary for each pair of executors must complete exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from baton.core.ids import Life, Role
from baton.core.session.node import LinkFull
from baton.core.sim.draw import END_TOKEN, draw_scenario
from baton.core.sim.env import Violation
from baton.core.sim.scenario import Client, Scenario
from baton.core.sim.wiring import Wiring
from baton.core.sim.world import Recorder, World
from baton.core.wire.sampling import SamplingParams

REST_WITHIN_S = 120.0  #: virtual seconds from the last fault until nothing of any request is left
CANARY_WITHIN_S = 60.0  #: and until all canaries are complete
INVENTORY_WITHIN_S = 10.0
HANDSHAKE_WITHIN_S = 10.0
LOOK_EVERY_S = 0.05
UNTOLD_PATIENCE_S = 10.0  #: where nobody tells of exits: how long quarantine is waited for before its owner restarts
MAX_EVENTS = 400_000
QUIET_LINES = ("<- Wake()", "Holding(live=())")  #: not worth telling


class Report(msgspec.Struct):
    """What a run gave."""

    seed: int
    num_events: int = 0
    virtual_s: float = 0.0
    digest: int = 0
    law: str = ""  #: the law that was broken; empty: none
    violation: str = ""
    counters: dict[str, int] = {}

    @property
    def is_good(self) -> bool:
        return not self.law


def run_seed(seed: int, **options: Any) -> Report:
    return run(draw_scenario(seed), **options)


def run(
    scenario: Scenario,
    make_wiring: Callable[..., Any] = Wiring,
    check_every: int = 97,
    record: Recorder | None = None,
    trace: Callable[[float, str], None] | None = None,
) -> Report:
    """Run the scenario to its end or to the first violation."""
    world = World(scenario, make_wiring, check_every, record, trace)
    report = Report(scenario.seed)
    try:
        Course(world).run()
    except Violation as violation:
        report.law, report.violation = violation.law, str(violation)
        world.env.tell(f"violation: {violation}")
    report.num_events = world.num_events
    report.virtual_s = world.env.time.now
    report.digest = world.digest
    report.counters = dict(sorted(world.env.counters.items()))
    return report


class Course:
    """The phases of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._env = world.env

    def run(self) -> None:
        """All phases, in order."""
        world = self.world
        world.start()
        self._until(world.scenario.faults_end_at)
        world.calm()
        self._come_to_rest("after the faults")
        self._check_credit()
        self._await_readiness()
        self._send_canaries()
        self._come_to_rest("after the canaries")
        world.check()
        self._await_readiness()

    def _until(self, when: float) -> None:
        time, world = self._env.time, self.world
        while time.now < when and time.step():
            if world.num_events > MAX_EVENTS:
                self._env.fail("bounded work", f"{world.num_events} events")

    def _come_to_rest(self, when: str) -> None:
        """Rest must come by itself; where nobody tells of exits, quarantine may stay until its owner restarts."""
        world, env = self.world, self._env
        last = env.time.now + REST_WITHIN_S
        patience = UNTOLD_PATIENCE_S
        while not world.is_quiet():
            if env.time.now >= last:
                env.fail("rest", f"{when}: {'; '.join(world.restless())}")
            self._until(env.time.now + LOOK_EVERY_S)
            if not world.scenario.is_told_of_exits:
                patience -= LOOK_EVERY_S
                if patience < 0:
                    patience = UNTOLD_PATIENCE_S
                    self._restart_the_restless()
        world.check()
        self._await_idle_agents()

    def _await_idle_agents(self) -> None:
        """An agent that is driven without a reason burns a core; a handshake may still be under way."""
        last = self._env.time.now + HANDSHAKE_WITHIN_S
        while True:
            driven = {p.identity: peers for p in self.world.executors() if (peers := p.transfer_of().driven())}
            if not driven:
                return
            if self._env.time.now >= last:
                self._env.fail("idle agents rest", f"still driven: {driven}")
            self._until(self._env.time.now + LOOK_EVERY_S)

    def _await_readiness(self) -> None:
        """Nothing is wrong and everybody is there: all say so, as soon as all are linked."""
        last = self._env.time.now + HANDSHAKE_WITHIN_S
        while unready := self.world.observer.unready(self.world.processes.values()):
            if self._env.time.now >= last:
                self._env.fail("ready at rest", f"{unready}")
            self._until(self._env.time.now + LOOK_EVERY_S)

    def _restart_the_restless(self) -> None:
        for process in self.world.executors():
            is_idle = process.device is None or process.device.is_idle
            if is_idle and not process.node.machine.quiescent():
                self._env.counters["restarted to end a quarantine"] += 1
                self.world.kill(process, 0.01, 0.01)

    def _check_credit(self) -> None:
        """Each executor says its whole free credit when a session begins: it must be what it granted at first."""
        world, env = self.world, self._env
        world.ears.wants_inventories = True
        world.ears.last_inventory.clear()
        for process in world.executors():
            process.hand(LinkFull("scheduler"))
        lives = [process.life for process in world.executors()]
        last = env.time.now + INVENTORY_WITHIN_S
        while not all(life in world.ears.last_inventory for life in lives):
            if env.time.now >= last:
                env.fail("inventories", f"{lives}: only {list(world.ears.last_inventory)}")
            self._until(env.time.now + LOOK_EVERY_S)
        world.ears.wants_inventories = False
        for life in lives:
            self._compare_credit(life)

    def _compare_credit(self, life: Life) -> None:
        inventory = self.world.ears.last_inventory[life]
        credit = (inventory.num_blocks, inventory.num_slots)
        if inventory.live or credit != self.world.ears.first_credit[life]:
            first = self.world.ears.first_credit[life]
            self._env.fail("credit comes back", f"{life} at rest: {credit} of {first}, live {inventory.live}")

    def _send_canaries(self) -> None:
        """More canaries than there are pairs, of two sizes, from every router; all must complete."""
        world, scenario = self.world, self.world.scenario
        self._until(self._env.time.now + 0.3)
        num_pairs = sum(spec.role is Role.PREFILL for spec in scenario.executors) * sum(
            spec.role is Role.DECODE for spec in scenario.executors
        ) + sum(spec.role is Role.UNIFIED for spec in scenario.executors)
        for index in range(2 * num_pairs):
            for router in range(scenario.num_routers):
                client = self._canary(index, router)
                if not world.oracle.may_never_fit(client):
                    world.ask(client, must_complete=True)
                    self._env.counters["canaries"] += 1
            self._await_canaries()

    def _await_canaries(self) -> None:
        """One wave at a time: a bound on streams must not refuse them."""
        last = self._env.time.now + CANARY_WITHIN_S
        while self.world.oracle.num_live:
            if self._env.time.now >= last:
                self._env.fail("canaries complete", f"{'; '.join(self.world.restless())}")
            self._until(self._env.time.now + 0.01)

    def _canary(self, index: int, router: int) -> Client:
        size = self.world.scenario.block_size
        length = max(1, min(size + 1 + index, self.world.scenario.max_model_len - 3))
        prompt = tuple([(31 * index + 7 * position + router) % 256 for position in range(length)])
        sampling = SamplingParams(max_tokens=3, seed=index, stop_token_ids=(END_TOKEN,))
        return Client(self._env.time.now, router, prompt, sampling, timeout_s=CANARY_WITHIN_S + 10.0)


def shrink(scenario: Scenario, law: str, max_runs: int = 120, **options: Any) -> tuple[Scenario, Report]:
    """A smaller scenario that breaks the same law: fewer faults, fewer clients."""
    best, report = scenario, run(scenario, **options)
    num_runs = 0
    for field in ("faults", "clients", "faults"):
        width = max(1, len(getattr(best, field)) // 2)
        while width >= 1 and num_runs < max_runs:
            start = 0
            while start < len(getattr(best, field)) and num_runs < max_runs:
                entries = getattr(best, field)
                smaller = msgspec.structs.replace(best, **{field: entries[:start] + entries[start + width :]})
                num_runs += 1
                tried = run(smaller, **options)
                if tried.law == law:
                    best, report = smaller, tried
                else:
                    start += width
            width //= 2
    return best, report


def tell_story(scenario: Scenario, max_lines: int = 80, **options: Any) -> list[str]:
    """The last lines of the run, heartbeats left out."""
    lines: list[str] = []

    def listen(now: float, line: str) -> None:
        if not line.endswith(QUIET_LINES) and " Beat " not in line and ": Holding(" not in line:
            lines.append(f"{now:10.6f}  {line}")

    run(scenario, trace=listen, **options)
    return lines[-max_lines:]
