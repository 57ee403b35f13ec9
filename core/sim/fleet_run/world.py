"""The processes of a fleet under one virtual clock: their turns, their links, their devices and wires."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from baton.core.events import ConnectLink, Note, Span, Wake
from baton.core.executor import events as e
from baton.core.ids import Peer, Role
from baton.core.router.events import Deliver, DeliverTokens, End
from baton.core.session.machine import Transmit
from baton.core.session.node import CloseLink, Node, OpenLink
from baton.core.sim.env import Env, Violation
from baton.core.sim.fleet_run.network import SteadyNetwork
from baton.core.sim.fleet_run.parts import OURS, Parts
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.records import NoteRecord, PieceRecord, StepRecord
from baton.core.sim.fleet_run.spec import ExecutorGroup, FleetSpec
from baton.core.sim.fleet_run.transfer import Ports
from baton.core.sim.scenario import ExecutorSpec

SCHEDULER = "scheduler"
READY_WITHIN_S = 60.0
MAX_WAKES_AT_ONCE = 1000  #: of one process at one moment: it would never rest
NEVER_NOTED = ("bad frame", "bad message", "peer lost", "link rejected", "refused after placement")

Heard = Callable[[LoopProcess, Any], None]


class Recorder:
    """What is kept of a run. A run that needs less overrides what it does not keep."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.pieces: list[PieceRecord] = []
        self.notes: list[NoteRecord] = []
        self.spans: list[tuple[str, Span]] = []  #: (process, what it held back or waited for)

    def step(self, record: StepRecord) -> None:
        self.steps.append(record)

    def piece(self, record: PieceRecord) -> None:
        self.pieces.append(record)

    def span(self, process: str, span: Span) -> None:
        self.spans.append((process, span))

    def note(self, time_s: float, process: str, note: Note) -> None:
        reason = "" if note.reason is None else note.reason.name
        said = NoteRecord(time_s, process, note.what, note.request_id, note.attempt, reason, note.numbers)
        self.notes.append(said)


class FactsAlone(Recorder):
    """Keeps nothing: the facts of the requests are enough."""

    def step(self, record: StepRecord) -> None:
        """Not kept."""

    def piece(self, record: PieceRecord) -> None:
        """Not kept."""

    def span(self, process: str, span: Span) -> None:
        """Not kept."""

    def note(self, time_s: float, process: str, note: Note) -> None:
        """Not kept."""


class FleetWorld:
    """One run. `heard` gets what routers say to clients."""

    def __init__(
        self, spec: FleetSpec, seed: int, heard: Heard, recorder: Recorder | None = None, parts: Parts = OURS
    ) -> None:
        self.spec = spec
        self.parts = parts
        self.env = Env(seed)
        self.recorder = recorder or Recorder()
        self.network = SteadyNetwork(self.env, spec.wires.latency_s)
        self.ports = Ports(spec.wires)
        self.wiring = parts.wiring(spec, spec.layout)
        self.processes: dict[str, LoopProcess] = {}
        self.num_events = 0
        self._turn_s = spec.wires.turn_s
        self._perform: dict[type, Callable[[Any, Any], None]] = {
            Transmit: lambda process, command: self.network.transmit(process, command.link, command.data),
            Note: self._note,
            Span: self._span,
            OpenLink: lambda process, command: self.network.open(process, command.link, command.address),
            CloseLink: lambda process, command: self.network.close(process, command.link),
            e.Launch: lambda process, command: process.compute.launch(command.plan),
            e.Post: self._transfer,
            e.OpenTransport: self._transfer,
            e.ConnectTransport: self._transfer,
            e.CloseTransport: self._transfer,
            e.Drive: self._transfer,
            e.Exit: self._exit,
            Deliver: heard,
            DeliverTokens: heard,
            End: heard,
        }

    @property
    def now(self) -> float:
        return self.env.time.now

    # ---- lives

    def start(self) -> None:
        """Everybody is there, linked and ready when it returns. Raises Violation if that does not come to be."""
        self._start(SCHEDULER, Role.SCHEDULER)
        for number in range(self.spec.num_routers):
            self._start(f"router-{number}", Role.ROUTER)
        for name, group in self.spec.names():
            self._start_executor(name, group)
        if self.spec.one_machine:
            devices = [process.compute for process in self.executors() if process.compute is not None]
            for device in devices:
                device.share(devices)
        while not self.is_ready():
            if self.now > READY_WITHIN_S or not self.env.time.step():
                waiting = {p.name: p.node.machine.readiness() for p in self.processes.values()}
                raise Violation("ready", f"the fleet is not ready: {waiting}")

    def is_ready(self) -> bool:
        return not any(process.node.machine.readiness() for process in self.processes.values())

    def routers(self) -> list[LoopProcess]:
        return [process for process in self.processes.values() if process.role is Role.ROUTER]

    def executors(self) -> Iterable[LoopProcess]:
        return (process for process in self.processes.values() if process.role.is_executor)

    def _start(self, name: str, role: Role) -> None:
        own = self.wiring.other_peer(name, role, 1, f"sim://{name}")
        self._add(own, self.wiring.scheduler(own) if role is Role.SCHEDULER else self.wiring.router(own))

    def _start_executor(self, name: str, group: ExecutorGroup) -> None:
        spec = ExecutorSpec(name, group.role, group.num_blocks, group.config)
        own = self.wiring.executor_peer(spec, 1, f"sim://{name}")
        process = self._add(own, self.wiring.executor(own, spec))
        wires = self.spec.wires
        process.compute = self.parts.device(process, group.profile.steps, self.recorder.step, wires.notice_s)
        if self.spec.tells_progress and group.role is Role.PREFILL:
            process.compute.tell_progress(self.spec.layout)
        process.wires = self.parts.transfer(process, self.ports, self.spec.layout, self.recorder.piece)

    def _add(self, own: Peer, node: Node) -> LoopProcess:
        process = self.parts.process(self.env, own, node, self.turn, self.perform)
        self.processes[own.name] = process
        self.network.bind(process)
        if own.role is not Role.SCHEDULER:
            process.hand(ConnectLink(Peer(SCHEDULER, Role.SCHEDULER, 0, f"sim://{SCHEDULER}")))
        return process

    # ---- turns

    def turn(self, process: Any, event: Any) -> None:
        """One event through one node, and its commands performed."""
        self.num_events += 1
        process.num_turns += 1
        process.perform(process.node.handle(event, self.env.time.now))
        if self._turn_s and not process.is_occupied:
            process.occupy(self._turn_s)
        self._arm(process)

    def perform(self, process: Any, command: Any) -> None:
        self._perform[type(command)](process, command)

    def _arm(self, process: LoopProcess) -> None:
        wake = process.node.next_wake
        if wake is not None and (process.timer_at is None or wake < process.timer_at):
            process.timer_at = wake
            self.env.time.at(wake, self._wake, process, wake)

    def _wake(self, process: LoopProcess, armed_at: float) -> None:
        if process.timer_at != armed_at:
            return  # an earlier timer took its place
        process.timer_at = None
        wake = process.node.next_wake
        if wake is None or wake > self.env.time.now:
            self._arm(process)
            return
        self._check_spin(process)
        process.hand(Wake())

    def _check_spin(self, process: LoopProcess) -> None:
        if process.last_wake_at == self.env.time.now:
            process.num_wakes_at_once += 1
            if process.num_wakes_at_once > MAX_WAKES_AT_ONCE:
                self.env.fail("no spinning", f"{process.name} wants a wake again and again")
        else:
            process.last_wake_at = self.env.time.now
            process.num_wakes_at_once = 0

    # ---- commands

    def _note(self, process: LoopProcess, note: Note) -> None:
        self.env.counters[f"{process.role.name.lower()}: {note.what}"] += 1
        if note.what in NEVER_NOTED:
            self.env.fail("nothing fails in a performance run", f"{process.name}: {note}")
        if note.request_id:
            self.recorder.note(self.env.time.now, process.name, note)

    def _span(self, process: LoopProcess, span: Span) -> None:
        reason = "" if span.reason is None else f" {span.reason.name}"
        self.env.counters[f"{process.role.name.lower()}: {span.what}{reason}"] += 1
        self.recorder.span(process.name, span)

    def _transfer(self, process: Any, command: Any) -> None:
        process.wires.take(command)

    def _exit(self, process: LoopProcess, command: e.Exit) -> None:
        self.env.fail("nothing fails in a performance run", f"{process.name}: {command}")
