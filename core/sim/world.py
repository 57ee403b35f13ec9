"""The simulated world: processes under one virtual clock, their links, devices and transfers, their clients.

The world knows the contracts alone: it performs the commands of the nodes, feeds back what the real world would, and
checks what must hold whatever the machines do inside.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from struct import pack
from typing import Any

from baton.core.events import ConnectLink, Note, Span, Wake, each_of
from baton.core.executor import events as e
from baton.core.ids import Life, Peer, Role
from baton.core.router.events import Arrive, ClientGone, Deliver, DeliverTokens, End, StopAt
from baton.core.session.machine import Transmit
from baton.core.session.node import CloseLink, FrameArrived, Node, OpenLink
from baton.core.sim.device import Model, SimDevice
from baton.core.sim.eavesdropper import Eavesdropper
from baton.core.sim.env import Env, Violation
from baton.core.sim.faults import inject
from baton.core.sim.gate_laws import GateLaws
from baton.core.sim.launcher import ChildExited
from baton.core.sim.link import Network
from baton.core.sim.memory import KvMemory, sim_layout
from baton.core.sim.observer import Observer
from baton.core.sim.oracle import Oracle, Stream
from baton.core.sim.process import Process
from baton.core.sim.scenario import Client, ExecutorSpec, Scenario
from baton.core.sim.span_laws import SpanLaws
from baton.core.sim.step_time.fuzzed import StepTime
from baton.core.sim.transport import TransferThread
from baton.core.sim.wiring import Wiring
from baton.core.sim.writes import Fabric

SCHEDULER = "scheduler"
LAUNCHER = "launcher"
MAX_WAKES_AT_ONCE = 50
GIVE_UP_DRAIN_S = 8.0
LATE_END_S = 0.02  #: after its deadline a request must have ended, if its router runs
LONG_S = 100.0  #: deadlines that are there for safety only

Recorder = Callable[[Process, float, Any, list[Any]], None]


class World:
    """One run. `start`, then step its timeline (see `fuzz.run`)."""

    def __init__(
        self,
        scenario: Scenario,
        make_wiring: Callable[..., Any] = Wiring,
        check_every: int = 97,
        record: Recorder | None = None,
        trace: Callable[[float, str], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.env = Env(scenario.seed, trace)
        self.layout = sim_layout(scenario.block_size, scenario.num_kv_layers, scenario.checkpoint_blocks)
        self.wiring: Wiring = make_wiring(scenario, self.layout)
        self.network = Network(self.env, scenario.latency_s, scenario.max_unread)
        self.oracle = Oracle(self.env, scenario)
        self.ears = Eavesdropper(self.env, scenario, self.oracle.fault_kinds)
        self.observer = Observer(self.env)
        self.processes: dict[str, Process] = {}  #: name → its newest life
        self.num_events = 0
        self.num_restarts_due = 0
        self._num_misunderstood = 0
        self.digest = 0  #: of every event, its time and its process
        self._epochs: dict[str, int] = {}
        self._specs = {spec.name: spec for spec in scenario.executors}
        self._next_request: dict[Life, int] = {}
        self._check_every = check_every
        self._record = record
        self._fabric = Fabric(self.layout, scenario.transport, scenario.bytes_per_s, scenario.fragment_s)
        self._perform: dict[type, Callable[[Process, Any], None]] = {
            Transmit: self._transmit,
            Note: self._note,
            Span: SpanLaws(self.env, scenario, self.oracle.fault_kinds).tell,
            OpenLink: lambda process, command: self.network.open(process, command.link, command.address),
            CloseLink: lambda process, command: self.network.close(process, command.link),
            e.Launch: GateLaws(self.env).launch,
            **dict.fromkeys((e.Post, e.OpenTransport, e.ConnectTransport, e.CloseTransport, e.Drive), self._transfer),
            e.Exit: self._exit,
            Deliver: self._deliver,
            DeliverTokens: self._deliver_tokens,
            End: self._end,
        }

    # ---- who is there

    def alive(self, *names: str) -> list[Process]:
        return [self.processes[name] for name in names if name in self.processes and self.processes[name].is_alive]

    def executors(self) -> list[Process]:
        return self.alive(*self._specs)

    def routers(self) -> list[Process]:
        return self.alive(*[f"router{index}" for index in range(self.scenario.num_routers)])

    # ---- lives

    def start(self) -> None:
        """Everybody starts within a few milliseconds; clients and faults are on their way."""
        names = [SCHEDULER, *[f"router{index}" for index in range(self.scenario.num_routers)], *self._specs]
        if self.scenario.is_told_of_exits:
            names.append(LAUNCHER)
        for name in names:
            self.num_restarts_due += 1
            self.env.time.after(self.env.random() * 0.02, self._start, name)
        for client in self.scenario.clients:
            self.env.time.at(client.at, self.ask, client)
        for fault in self.scenario.faults:
            self.env.time.at(fault.at, inject, self, fault)

    def _start(self, name: str) -> None:
        self.num_restarts_due -= 1
        epoch = self._epochs[name] = self._epochs.get(name, 0) + 1
        keeps = self.scenario.keeps_addresses or name == SCHEDULER
        address = f"sim://{name}" if keeps else f"sim://{name}/{epoch}"
        spec = self._specs.get(name)
        if spec is not None:
            own = self.wiring.executor_peer(spec, epoch, address)
            node = self.wiring.executor(own, spec)
        else:
            own, node = self._make_other(name, epoch, address)
        offset_s = self.env.between(10.0, 1000.0)
        process = Process(self.env, own, node, offset_s, self.turn, self.scenario.busy_loop_s)
        self.env.tell(f"{process.identity} starts")
        self.processes[name] = process
        if spec is not None:
            self._give_device(process, spec)
        self.network.bind(process)
        if name != SCHEDULER:
            process.hand(ConnectLink(Peer(SCHEDULER, Role.SCHEDULER, 0, f"sim://{SCHEDULER}")))

    def _make_other(self, name: str, epoch: int, address: str) -> tuple[Peer, Node]:
        if name == SCHEDULER:
            own = self.wiring.other_peer(name, Role.SCHEDULER, epoch, address)
            return own, self.wiring.scheduler(own)
        if name == LAUNCHER:
            own = self.wiring.other_peer(name, Role.LAUNCHER, epoch, "")
            return own, self.wiring.launcher(own)
        own = self.wiring.other_peer(name, Role.ROUTER, epoch, "")
        return own, self.wiring.router(own)

    def _give_device(self, process: Process, spec: ExecutorSpec) -> None:
        scenario = self.scenario
        process.memory = KvMemory(self.layout, spec.num_blocks, self.env.rng)
        step_time = StepTime(scenario.step_base_s, scenario.step_token_s, 2.0 * scenario.step_token_s)
        model = Model(scenario.end_one_in, scenario.strict_reads, scenario.tells_progress)
        process.device = SimDevice(process, process.memory, step_time, model)
        process.transfer = TransferThread(process, process.memory, self._fabric, spec.config)

    def kill(self, process: Process, restart_after_s: float, told_after_s: float) -> None:
        """The process is gone. Whoever started it (if anybody) sees that later and starts its next life."""
        self.env.tell(f"{process.identity} dies")
        process.die()
        self.network.remove(process)
        if process.transfer is not None:
            process.transfer.die()
        if process.role is Role.ROUTER:
            self.oracle.lose_router(process.life)
        if self.scenario.is_told_of_exits:
            restart_after_s = max(restart_after_s, told_after_s)
            self.env.time.after(told_after_s, self._tell_exit, process.life)
        self.num_restarts_due += 1
        self.env.time.after(restart_after_s, self._start, process.name)

    def _tell_exit(self, life: Life) -> None:
        self.processes[LAUNCHER].hand(ChildExited(life))

    def restart_when_quiet(self, process: Process, restart_after_s: float) -> None:
        """A drained process is restarted when it holds nothing any more, or after a while anyway."""
        deadline = self.env.time.now + GIVE_UP_DRAIN_S
        self.num_restarts_due += 1

        def look() -> None:
            if process.is_alive and not self._is_at_rest(process) and self.env.time.now < deadline:
                self.env.time.after(0.05, look)
                return
            self.num_restarts_due -= 1
            if process.is_alive:
                self.env.counters["drained to the end" if self._is_at_rest(process) else "drain gave up"] += 1
                self.kill(process, restart_after_s, 0.01)

        look()

    def _is_at_rest(self, process: Process) -> bool:
        device, transfer = process.device, process.transfer
        is_idle = (device is None or device.is_idle) and (transfer is None or transfer.is_idle)
        return is_idle and not process.is_stopped and process.node.machine.quiescent()

    # ---- turns

    def turn(self, process: Process, event: Any) -> None:
        """One event through one node, and its commands performed."""
        self.num_events += 1
        reports = each_of(event)
        for report in reports:
            self._note_report(process, report)
        now = self.env.time.now + process.clock_offset_s
        self.digest = zlib.crc32(pack("<dq", now, self.num_events), self.digest)
        if self.env.trace is not None:
            self.env.tell(f"{process.identity} <- {self.ears.describe(process, event)}")
        commands = self._handle(process, event, now)
        if self._record is not None:
            self._record(process, now, event, commands)
        for command in commands:
            self._perform[type(command)](process, command)
        for report in reports:
            if type(report) is e.StepFailed and not report.proven and process.is_alive:
                self.env.fail("an unproven step ends the process", f"{process.identity} goes on after {event}")
        self._arm(process)

    def _note_report(self, process: Process, event: Any) -> None:
        kind = type(event)
        if kind is FrameArrived:
            self.digest = zlib.crc32(event.data, self.digest)
            self.ears.hear(process, event)
        elif kind is e.PieceLanded or kind is e.PieceFailed:
            process.transfer_of().books.heard(event.piece_id, kind is e.PieceLanded)
        elif kind in (e.StepDone, e.StepFailed, e.StepAdvanced) and process.device is not None:
            process.device.lanes.hear(event)

    def _handle(self, process: Process, event: Any, now: float) -> list[Any]:
        try:
            commands = process.node.handle(event, now)
            if self.num_events % self._check_every == 0:
                self.observer.look(process)
        except Violation:
            raise
        except Exception as error:
            raise Violation("no machine raises", f"{process.identity} on {event!r:.300}: {error!r:.1000}") from error
        return commands

    def _arm(self, process: Process) -> None:
        """Set the process's timer, a little late as real timers are."""
        wake = process.node.next_wake
        if wake is None or not process.is_alive:
            return
        at = wake - process.clock_offset_s
        now = self.env.time.now
        if at < now:
            at = now
        if process.timer_at is None or at < process.timer_at:
            process.timer_at = at
            self.env.time.at(at + 1e-4 * self.env.random(), process.run, self._wake, process, at)

    def _wake(self, process: Process, armed_at: float) -> None:
        if process.timer_at != armed_at:
            return  # an earlier timer took its place
        process.timer_at = None
        wake = process.node.next_wake
        if wake is not None and wake <= self.env.time.now + process.clock_offset_s:
            self._check_spin(process)
            self.turn(process, Wake())
        else:
            self._arm(process)

    def _check_spin(self, process: Process) -> None:
        """A machine that wants to be woken again and again without a reason would burn a core."""
        now = self.env.time.now
        if now - process.last_wake_at < 1e-3:
            process.num_wakes_at_once += 1
            if process.num_wakes_at_once > MAX_WAKES_AT_ONCE:
                self.env.fail("no spinning", f"{process.identity} wants {process.num_wakes_at_once} wakes in a row")
        else:
            process.num_wakes_at_once = 0
        process.last_wake_at = now

    # ---- commands

    def _transmit(self, process: Process, command: Transmit) -> None:
        if process.role.is_executor:
            self.ears.listen(process, command.link, command.data)
        self.network.transmit(process, command.link, command.data)

    def _note(self, process: Process, command: Note) -> None:
        reason = "" if command.reason is None else f" {command.reason.name}"
        self.env.counters[f"note {process.role.name.lower()}: {command.what}{reason}"] += 1
        if command.what in ("bad frame", "bad message"):
            self._num_misunderstood += 1
            if self._num_misunderstood > 2 * self.network.num_spoiled:  # each may have come twice
                self.env.fail("everybody understands everybody", f"{process.identity}: {command}")
        if command.what == "refused after placement":
            self.oracle.refused_after_placement(process.identity, command.reason)
        if self.env.trace is not None:
            self.env.tell(f"{process.identity} notes {command}")

    def _transfer(self, process: Process, command: Any) -> None:
        if self.env.trace is not None:
            self.env.tell(f"{process.identity} -> {command}")
        process.transfer_of().take(command)

    def _exit(self, process: Process, command: e.Exit) -> None:
        if not process.exit_cause:
            self.env.fail("no exit without a cause", f"{process.identity}: {command}")
        self.env.counters[f"exit {command.code}"] += 1
        self.kill(process, self.env.between(0.01, 0.5), 0.02)

    # ---- clients

    def ask(self, client: Client, must_complete: bool = False) -> None:
        """A client's request reaches its router, if that lives."""
        process = self.processes.get(f"router{client.router}")
        if process is None or not process.is_alive:
            self.env.counters["requests that found no router"] += 1
            return
        process.run(self._arrive, process, client, must_complete)

    def _arrive(self, process: Process, client: Client, must_complete: bool) -> None:
        request_id = self._next_request[process.life] = self._next_request.get(process.life, 0) + 1
        prompt = array("i", client.prompt).tobytes()
        root, hashes = self.wiring.hashes(prompt, client.salt)
        stream = self.oracle.accept(process.life, request_id, client, must_complete)
        arrive = Arrive(
            request_id, prompt, len(client.prompt), root, hashes, client.sampling, client.num_choices,
            client.timeout_s, client.priority_class, client.tenant,
        )  # fmt: skip
        if client.gone_after_s is not None:
            self.env.time.after(client.gone_after_s, process.run, self._leave, process, request_id, stream)
        if client.timeout_s < LONG_S:
            self.env.time.after(client.timeout_s + LATE_END_S, process.run, self._check_deadline, process, stream)
        process.hand(arrive)

    def _check_deadline(self, process: Process, stream: Stream) -> None:
        if stream.ended is None:
            self.env.fail("deadlines are kept", f"{process.identity}: a request without its end {LATE_END_S} s later")

    def _leave(self, process: Process, request_id: int, stream: Stream) -> None:
        if stream.ended is None:
            gone = ClientGone(request_id)
            stream.gone = gone.reason
            self.env.counters["client gone"] += 1
            process.hand(gone)

    def _deliver_tokens(self, process: Process, command: DeliverTokens) -> None:
        for deliver in command.delivers():
            self._deliver(process, deliver)

    def _deliver(self, process: Process, command: Deliver) -> None:
        stream = self.oracle.deliver(process.life, command)
        stop_at = stream.client.stop_at
        if stop_at is None or stop_at[0] != command.choice or command.choice in stream.stops:
            return
        if stream.num_delivered[command.choice] >= stop_at[1] and not stream.finished[command.choice]:
            self.oracle.stop(stream, *stop_at)
            self.env.counters["stop string"] += 1
            stop = StopAt(command.request_id, *stop_at)
            self.env.time.after(self.env.random() * 1e-3, process.run, self._stop, process, stop, stream)

    def _stop(self, process: Process, stop: StopAt, stream: Stream) -> None:
        if stream.ended is None:
            stream.heard_stops.append(stop.choice)
            process.hand(stop)

    def _end(self, process: Process, command: End) -> None:
        self.oracle.end(process.life, command)

    # ---- rest

    def is_quiet(self) -> bool:
        """Whether nothing of any request is left anywhere and everybody is there."""
        if self.oracle.num_live or self.num_restarts_due:
            return False
        return all(process.is_alive and self._is_at_rest(process) for process in self.processes.values())

    def restless(self) -> list[str]:
        """Who keeps the world from being quiet, and why."""
        found = [f"request {name}" for name in self.oracle.unended()]
        for process in self.processes.values():
            if not process.is_alive or not self._is_at_rest(process):
                quiescent = process.node.machine.quiescent()
                device = process.device is None or process.device.is_idle
                transfer = process.transfer is None or process.transfer.is_idle
                found.append(f"{process.identity}: quiescent={quiescent} device={device} transfers={transfer}")
        return found

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        self.env.tell("faults stop")
        for connection in self.network.connections:
            for way in (connection.up, connection.down):
                way.num_to_lose = way.num_to_double = way.num_to_spoil = 0
                way.is_full = False
        for process in self.processes.values():
            if process.device is not None:
                process.device.lanes.failures.clear()
                process.device.lanes.slow_factor = 1.0
            if process.transfer is not None:
                process.transfer.forget_faults()
            if process.is_stopped:
                process.go_on()

    def check(self) -> None:
        self.observer.look_at_all(process for process in self.processes.values() if process.is_alive)
