"""A run's side of one worker process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable

import msgspec

from baton.core.metrics.facts import Phase, RequestFacts
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.worker_messages import (
    FROM_WORKER,
    Batch,
    Begin,
    Broken,
    PhaseOver,
    Prepared,
    StartPhase,
    Stop,
    ToWorker,
    frame_of,
    read_frame,
)

WORKER = (sys.executable, "-m", "baton.services.loadgen.worker")
READ_BYTES = 1 << 20


class WorkerProcess:
    """Starts a worker, hands it a share, and passes on what it tells. A worker that ends before it was told to is
    `broken`, and so are all waits for it over."""

    def __init__(
        self, begin: Begin, told: Callable[[tuple[RequestFacts, ...]], None], broke: Callable[[], None]
    ) -> None:
        self.number = begin.worker
        self.broken = ""  #: why it could not go on
        self._begin = begin
        self._told = told
        self._broke = broke
        self._missing: dict[int, PlannedRequest] = {request.index: request for request in begin.requests}
        self._prepared = asyncio.Event()
        self._phases = {phase: asyncio.Event() for phase in Phase}
        self._is_stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def missing(self) -> Iterable[PlannedRequest]:
        """Requests of its share of which it has told nothing."""
        return self._missing.values()

    async def start(self) -> None:
        """Raises OSError."""
        self._process = await asyncio.create_subprocess_exec(
            *WORKER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C reaches the run alone
            limit=READ_BYTES,
        )
        self._reading = asyncio.create_task(self._read(self._process))
        self._send(self._begin)

    async def prepared(self) -> None:
        await self._prepared.wait()

    async def phase_over(self, phase: Phase) -> None:
        await self._phases[phase].wait()

    def start_phase(self, phase: Phase, start_s: float) -> None:
        self._send(StartPhase(phase, start_s))

    def stop(self, detail: str) -> None:
        self._is_stopping = True
        self._send(Stop(detail))

    async def ended(self, grace_s: float) -> None:
        """Wait for its end, and bring it about if that takes too long."""
        if self._process is None or self._reading is None:
            return
        try:
            await asyncio.wait_for(asyncio.shield(self._reading), grace_s)
        except TimeoutError:
            self._break(f"worker {self.number} did not stop within {grace_s:g} s")
            self.kill()
            await self._reading

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _send(self, message: ToWorker) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(frame_of(message))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while (frame := await read_frame(process.stdout)) is not None:
            try:
                self._take(FROM_WORKER.decode(frame))
            except msgspec.MsgspecError as error:
                self._break(f"worker {self.number} sent what is no message: {error}")
                self.kill()
        code = await process.wait()
        if not self._is_stopping:
            self._break(f"worker {self.number} ended by itself, with exit code {code}")
        self._release()

    def _take(self, message: Prepared | Batch | PhaseOver | Broken) -> None:
        match message:
            case Batch(facts=facts):
                for fact in facts:
                    self._missing.pop(fact.index, None)
                self._told(facts)
            case Prepared():
                self._prepared.set()
            case PhaseOver(phase=phase):
                self._phases[phase].set()
            case Broken(detail=detail):
                self._break(detail)

    def _break(self, cause: str) -> None:
        """The first cause stays."""
        self.broken = self.broken or cause
        self._release()
        self._broke()

    def _release(self) -> None:
        self._prepared.set()
        for event in self._phases.values():
            event.set()
