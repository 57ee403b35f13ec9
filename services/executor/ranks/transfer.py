"""The transfer of a group: every rank's own transfer thread, behind the face of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import msgspec

from baton.core.errors import BadMessage
from baton.core.executor.events import ConnectTransport, ThreadEvent, TransportFailed
from baton.services.executor.ranks.channel import Channel
from baton.services.executor.ranks.join import TransferCommand, TransferJoin
from baton.services.executor.ranks.messages import RankReport
from baton.services.executor.transfer.counters import TransferCounters
from baton.services.executor.transfer.thread import TransferThread

_REPORTS = msgspec.msgpack.Decoder(RankReport)


class GroupTransfer:
    """Takes what a `TransferThread` takes. `make_own` makes the first rank's, given where its events go.

    A rank that is gone says nothing here: whoever watches the processes ends the group.
    """

    def __init__(
        self,
        make_own: Callable[[Callable[[ThreadEvent], object]], TransferThread],
        others: Sequence[Channel],
        post_event: Callable[[ThreadEvent], object],
        on_crash: Callable[[BaseException], object],
    ) -> None:
        self._join = TransferJoin(1 + len(others))
        self._lock = threading.Lock()  #: of the join, and of the order in which its events are told
        self._post_event = post_event
        self._on_crash = on_crash
        self._others = others
        self._counters = [TransferCounters() for _ in others]
        self._outboxes: list[SimpleQueue[bytes | None]] = [SimpleQueue() for _ in others]
        self._own = make_own(lambda event: self._report(0, event))
        self._threads = [
            threading.Thread(target=target, args=(index,), name=f"rank{index + 1}-{target.__name__}", daemon=True)
            for index in range(len(others))
            for target in (self._send, self._receive)
        ]

    def start(self) -> None:
        self._own.start()
        for thread in self._threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return self._own.is_alive

    def submit(self, command: TransferCommand) -> None:
        """Hand a command over and return at once. Raises TransferQueueFull as `TransferThread` does."""
        failed: TransportFailed | None = None
        with self._lock:
            try:
                commands = self._join.split(command)
            except BadMessage as error:
                if not isinstance(command, ConnectTransport):
                    raise
                failed = TransportFailed(command.peer, command.peer_epoch, str(error))
        if failed is not None:
            self._report(0, failed)
            return
        self._own.submit(commands[0])
        for outbox, theirs in zip(self._outboxes, commands[1:], strict=True):
            outbox.put(msgspec.msgpack.encode(theirs))

    def stop(self) -> None:
        """Close what is open, on every rank. Idempotent."""
        self._own.stop()
        for outbox in self._outboxes:
            outbox.put(None)

    @property
    def counters(self) -> TransferCounters:
        """The sums over all ranks."""
        total = TransferCounters()
        for counters in self.counters_by_rank():
            for name in TransferCounters.__slots__:
                setattr(total, name, getattr(total, name) + getattr(counters, name))
        return total

    def counters_by_rank(self) -> list[TransferCounters]:
        """Those of other ranks as of their last report."""
        return [self._own.counters, *self._counters]

    def _report(self, rank: int, event: ThreadEvent) -> None:
        with self._lock:
            joined = self._join.report(rank, event)
            if joined is not None:
                self._post_event(joined)

    def _send(self, index: int) -> None:
        """Commands of one rank, on a thread that may wait for it."""
        while (frame := self._outboxes[index].get()) is not None:
            try:
                self._others[index].send(frame)
            except OSError:
                return

    def _receive(self, index: int) -> None:
        try:
            while (frame := self._others[index].receive()) is not None:
                report = _REPORTS.decode(frame)
                for name, value in zip(TransferCounters.__slots__, report.counters, strict=True):
                    setattr(self._counters[index], name, value)
                self._report(index + 1, report.event)
        except Exception as error:
            self._on_crash(error)


def counter_values(counters: TransferCounters) -> tuple[float, ...]:
    return tuple(getattr(counters, name) for name in TransferCounters.__slots__)
