"""What all services are made of: one machine as a node, its driver, its control links, its admin endpoint."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from baton.core.events import ConnectLink, Machine, Note, Span
from baton.core.ids import Capacity, Life, Peer, Role
from baton.core.layout import KvLayout
from baton.core.session.machine import LinkTiming, Transmit
from baton.core.session.node import CloseLink, Node, OpenLink
from baton.core.trace.recorder import Recorder
from baton.services.runtime.admin import AdminPages, Page
from baton.services.runtime.driver import Driver
from baton.services.runtime.journal import open_journal
from baton.services.runtime.known_counters import known_counters
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.metrics import Distribution, Metrics
from baton.services.runtime.settings import Settings
from baton.services.runtime.tracing import Tracing
from baton.services.transport.keys import KeyRing
from baton.services.transport.zmq_links import LinkLimits, Links

QUIESCENCE_POLL_S = 0.02


class RunRecord(msgspec.Struct, frozen=True):
    """`NAME.json` in the run folder: where a process that serves can be found."""

    name: str
    epoch: int
    pid: int
    address: str  #: of its control links; empty if nobody dials it
    admin_port: int
    http_port: int = 0


class Process:
    """One service's machine with everything that it stands on. Made on the loop's thread, after what it measures."""

    def __init__(
        self,
        life: Lifecycle,
        settings: Settings,
        ring: KeyRing,
        make_machine: Callable[[Peer], Machine],
        *,
        layout: KvLayout | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        service, link = settings.service, settings.link
        self.life = life
        self.settings = settings
        self.metrics = Metrics()
        limits = LinkLimits(queued_frames=link.queued_frames)
        self.links = Links(loop, Life(service.name, service.epoch), ring, self._post, limits)
        bound = self.links.bind(link.listen, beyond_loopback=True) if link.listen else ""
        fingerprint = layout.fingerprint() if layout is not None else b""
        address = link.advertise or bound
        self.own = Peer(service.name, settings.role, service.epoch, address, fingerprint, capacity)
        self.machine = make_machine(self.own)
        timing = LinkTiming(link.heartbeat_s, link.silence_s)
        journal = open_journal(life, settings, self.own, layout)
        recorder = Recorder(service.trace_events, 0 if layout is None else layout.slot_bytes)
        self._recorder = recorder if service.trace_events else None
        self.driver = Driver(Node(self.own, self.machine, timing), loop, life.fail, journal, self._recorder)
        self._perform_links()
        known = known_counters(settings.role, settings.knobs)
        self.metrics.add_gauges(lambda: known | self.machine.gauges())
        self.metrics.add_gauges(self._own_gauges)
        self.metrics.add_distributions(self._turns)

    def dial_scheduler(self) -> None:
        link = self.settings.link
        self.driver.post(ConnectLink(Peer(link.scheduler_name, Role.SCHEDULER, 0, link.scheduler)))

    async def serve(
        self, sickness: Callable[[], str] = lambda: "", others: Mapping[str, Page] | None = None
    ) -> None:
        """Serve the admin endpoint and tell where it is; it ends with the lifecycle's tasks."""
        self.announce(await self.open_admin(self.machine.readiness, sickness, others))

    async def open_admin(
        self,
        readiness: Callable[[], str],
        sickness: Callable[[], str] = lambda: "",
        others: Mapping[str, Page] | None = None,
    ) -> int:
        """Serve the admin endpoint and return its port; it ends with the lifecycle's tasks."""
        tracing = Tracing(self.own, self.machine, self._recorder)
        pages = AdminPages(self.driver, self.metrics, readiness, sickness, tracing, others)
        runner, port = await pages.start(self.settings.service.admin_port)
        self.life.spawn(_until_cancelled(runner.cleanup))
        return port

    def announce(self, admin_port: int, http_port: int = 0, **told: object) -> None:
        """Log where this process is and what else is to be told of its start, and write its run record."""
        own = self.own
        gc.collect()
        gc.freeze()  # what the start made stays: the collector need not look at all of it again and again
        self.life.log.info("serving", address=own.address, admin_port=admin_port, http_port=http_port, **told)
        if self.settings.service.run_folder:
            record = RunRecord(own.name, own.epoch, os.getpid(), own.address, admin_port, http_port)
            write_record(Path(self.settings.service.run_folder), record)

    async def quiescence(self) -> bool:
        """Wait until nothing of any request is left, at most the drain time. Whether it came so far."""
        try:
            async with asyncio.timeout(self.settings.service.drain_timeout_s):
                while not self.machine.quiescent():
                    await asyncio.sleep(QUIESCENCE_POLL_S)
        except TimeoutError:
            self.life.log.warn("drain timed out", drain_timeout_s=self.settings.service.drain_timeout_s)
            return False
        return True

    def shut(self) -> None:
        self.driver.stop()
        self.links.shut()

    def _post(self, event: object) -> None:
        self.driver.post(event)

    def _perform_links(self) -> None:
        self.driver.perform(Transmit, self.links.transmit)
        self.driver.perform(OpenLink, self.links.open)
        self.driver.perform(CloseLink, self.links.close)
        self.driver.perform(Note, self._note)
        self.driver.perform(Span, self.metrics.count_span)

    def _note(self, note: Note) -> None:
        self.metrics.count(note)
        self.life.log.note(note)

    def _turns(self) -> list[Distribution]:
        turns = self.driver.turns.items()
        return [Distribution("turn_seconds", {"event": name}, times) for name, times in turns]

    def _own_gauges(self) -> dict[str, float]:
        counters = self.links.counters
        return {
            "epoch": float(self.own.epoch),
            "quiescent": float(self.machine.quiescent()),
            "events_total": float(self.driver.num_events),
            "busy_seconds_total": self.driver.busy_s,
            "frames_sent_total": float(counters.sent),
            "frames_received_total": float(counters.received),
            "frames_refused_total": float(counters.refused),
            "links_full_total": float(counters.full),
            "links_unroutable_total": float(counters.unroutable),
            "links_unopened_total": float(counters.unopened),
            "connections_refused_total": float(self.links.num_refused_connections),
        }


def write_record(folder: Path, record: RunRecord) -> None:
    """Whole or not at all."""
    draft = folder / f"{record.name}.json.new"
    draft.write_bytes(msgspec.json.encode(record))
    os.replace(draft, folder / f"{record.name}.json")


def read_record(folder: Path, name: str) -> RunRecord | None:
    """None while the process has not said where it is."""
    try:
        return msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=RunRecord)
    except FileNotFoundError:
        return None


async def _until_cancelled(cleanup: Callable[[], object]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await cleanup()  # type: ignore[misc]
