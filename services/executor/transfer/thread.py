"""The transfer thread: posts pieces in order, proves each one, drives what peers write here, and reports events.

It never waits for one peer while another has work, and at rest it blocks on its mailbox and uses no CPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    Drive,
    OpenTransport,
    Post,
    ThreadEvent,
    TransportFailed,
)
from baton.services.executor.transfer.counters import TransferCounters
from baton.services.executor.transfer.errors import TransferQueueFull
from baton.services.executor.transfer.faults import FaultSource
from baton.services.executor.transfer.links import Links
from baton.services.executor.transfer.region import KvRegion
from baton.services.executor.transfer.setup import Continuation, SetupThread
from baton.services.executor.transfer.writer import PieceWriter

TransferCommand = OpenTransport | ConnectTransport | CloseTransport | Drive | Post

PAUSE_S = 1e-6  #: between two pieces: lets the loop's thread in
PAUSE_AFTER_S = 200e-6  #: of posting; small pieces share a pause
POLL_S = 50e-6  #: while writes are not proven
DRIVE_S = 200e-6  #: while a peer writes here
MAX_UNFINISHED_PIECES = 1 << 16
STOP_TIMEOUT_S = 10.0


class TransferThread:
    """Commands in by `submit`; events out by `post_event`, called on this thread: it must neither block nor raise.

    `name` must be unique among processes and their lives: peers know agents by it. `on_crash` gets what ended the
    thread other than `stop`; nothing was freed then. No piece, and no write of several, is larger than
    `max_piece_bytes`. Lifecycle: `start`, `submit` …, `stop`.
    """

    def __init__(
        self,
        region: KvRegion,
        name: str,
        post_event: Callable[[ThreadEvent], object],
        on_crash: Callable[[BaseException], object],
        *,
        max_piece_bytes: int,
        faults: FaultSource | None = None,
        max_unfinished_pieces: int = MAX_UNFINISHED_PIECES,
    ) -> None:
        self.counters = TransferCounters()
        self._post_event = post_event
        self._on_crash = on_crash
        self._max_unfinished_pieces = max_unfinished_pieces
        self._mailbox: SimpleQueue[TransferCommand | Continuation] = SimpleQueue()
        self._setup = SetupThread(self._mailbox.put)
        self._links = Links(region, name, self.counters, post_event, self._setup)
        self._writer = PieceWriter(region, self.counters, post_event, self._links.break_, faults, max_piece_bytes)
        self._links.writer = self._writer
        self._next_drive_at_s = 0.0
        self._pause_due_at_post_s = 0.0  #: on the clock of `counters.post_s`
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run_guarded, name="transfer", daemon=True)

    def start(self) -> None:
        self._setup.start()
        self._thread.start()

    def submit(self, command: TransferCommand) -> None:
        """Hand a command over and return at once. Raises TransferQueueFull: the caller did not keep its own limits."""
        if isinstance(command, Post):
            num_unfinished = self.counters.num_unfinished_pieces + len(command.pieces)
            if num_unfinished > self._max_unfinished_pieces:
                raise TransferQueueFull(f"{num_unfinished} unfinished pieces, at most {self._max_unfinished_pieces}")
            self.counters.num_submitted_pieces += len(command.pieces)
        self._mailbox.put(command)

    def stop(self) -> None:
        """Close every agent as `CloseTransport` does and end the thread. Idempotent."""
        self._mailbox.put(self._begin_stop)
        self._thread.join(STOP_TIMEOUT_S)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run_guarded(self) -> None:
        try:
            while not self._is_stopping or len(self._links):
                self._turn()
        except Exception as error:
            self._on_crash(error)
        self._setup.stop()

    def _turn(self) -> None:
        """Commands, then one piece, then every poll: so no duty waits for more than one post."""
        self._take_commands(self._wait_s(time.monotonic()))
        now_s = time.monotonic()
        self._writer.post_next(now_s)
        self._writer.poll()
        if self._links.has_driven and now_s >= self._next_drive_at_s:
            self._links.drive()
            self._next_drive_at_s = time.monotonic() + DRIVE_S

    def _wait_s(self, now_s: float) -> float | None:
        """How long the mailbox may be waited for: until the next duty, and without end if there is none."""
        waits = [POLL_S] if self._writer.has_unproven else []
        next_post_at_s = self._writer.next_post_at_s()
        if next_post_at_s is not None:
            waits.append(max(self._pause_s(), next_post_at_s - now_s))
        if self._links.has_driven:
            waits.append(max(PAUSE_S, self._next_drive_at_s - now_s))
        return min(waits, default=None)

    def _pause_s(self) -> float:
        if self.counters.post_s < self._pause_due_at_post_s:
            return 0.0
        self._pause_due_at_post_s = self.counters.post_s + PAUSE_AFTER_S
        return PAUSE_S

    def _take_commands(self, wait_s: float | None) -> None:
        try:
            item = self._mailbox.get(timeout=wait_s)
            while True:
                self._handle(item)
                del item  # it may hold an agent
                item = self._mailbox.get_nowait()
        except Empty:
            return

    def _handle(self, item: TransferCommand | Continuation) -> None:
        if isinstance(item, Post):
            for piece in item.pieces:
                self._writer.enqueue(self._links.of_piece(piece), piece)
        elif isinstance(item, OpenTransport):
            self._open(item)
        elif isinstance(item, ConnectTransport | CloseTransport | Drive):
            self._links.handle(item)
        else:
            item()

    def _open(self, command: OpenTransport) -> None:
        if self._is_stopping:
            self._post_event(TransportFailed(command.peer, command.peer_epoch, "stopping"))
        else:
            self._links.open(command)

    def _begin_stop(self) -> None:
        self._is_stopping = True
        self._links.close_all()
