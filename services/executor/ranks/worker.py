"""`python -m baton.services.executor.ranks.worker`: any rank but the first. Started by the first rank only.

Its main thread computes; beside it a thread says that it lives, and one takes transport commands.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from baton.core.errors import Incompatible, ServingError
from baton.core.executor.events import ThreadEvent
from baton.core.layout import KvLayout
from baton.services.executor.compute_thread import NICENESS
from baton.services.executor.ranks.channel import Channel, inherited_channel
from baton.services.executor.ranks.join import TransferCommand
from baton.services.executor.ranks.messages import Meet, RankAlive, RankFailed, RankLoaded, RankReport, RankStart
from baton.services.executor.ranks.start import load_follower
from baton.services.runtime.lifecycle import EXIT_BUG, EXIT_REFUSED, die_with_parent
from baton.services.runtime.log import Log

WORDS_PER_TIMEOUT = 5  #: how often a rank says within the timeout that it lives
PARENT_TIMEOUT_S = 60.0  #: for a parent that does not read

_COMMANDS = msgspec.msgpack.Decoder(TransferCommand)


class Worker:
    """One rank, from its start to its end."""

    def __init__(self, start: RankStart, orders: Channel, moves: Channel) -> None:
        self.start = start
        self.log = Log(f"{start.name}/rank{start.shard.rank}", start.epoch)
        self._orders = orders
        self._moves = moves

    def run(self) -> int:
        """Follow until the orders end; the exit code."""
        try:
            return self._serve()
        except Exception as error:
            is_refusal = isinstance(error, Incompatible | MemoryError)
            self.log.error("cannot go on", kind=type(error).__name__, detail=str(error))
            self._say_failed(RankFailed(f"{type(error).__name__}: {error}", is_refusal))
            return EXIT_REFUSED if isinstance(error, ServingError | MemoryError) else EXIT_BUG

    def _serve(self) -> int:
        device = load_follower(self.start)
        stop_transfer: Callable[[], None] | None = None
        if self.start.moves_kv:
            stop_transfer = self._start_transfer(device.kv_base_address, device.num_blocks, device.layout)
        alive = threading.Thread(target=self._say_alive, name="alive", daemon=True)
        alive.start()  # as urgent as the process is now
        self._orders.tell(RankLoaded())
        meeting = self._orders.receive()
        if meeting is None:
            return 0
        device.meet(Path(msgspec.msgpack.decode(meeting, type=Meet).store))
        self.log.info("serving", pid=os.getpid(), cores=",".join(map(str, self.start.cores)))
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while (order := self._orders.receive()) is not None:
            device.follow(order)
        if stop_transfer is not None:
            stop_transfer()
        return 0

    def _start_transfer(self, base_address: int, num_blocks: int, layout: KvLayout) -> Callable[[], None]:
        """Returns what ends it."""
        from baton.services.executor.ranks.transfer import counter_values
        from baton.services.executor.transfer.region import KvRegion
        from baton.services.executor.transfer.thread import TransferThread

        def report(event: ThreadEvent) -> None:
            with contextlib.suppress(OSError):  # a parent that is gone: the main thread learns it as well
                self._moves.tell(RankReport(event, counter_values(thread.counters)))

        name = f"{self.start.name}/{self.start.epoch}/{self.start.shard.rank}"
        region = KvRegion(base_address, num_blocks, layout)
        thread = TransferThread(region, name, report, self._crash, max_piece_bytes=self.start.piece_bytes)
        thread.start()

        def take_commands() -> None:
            while (frame := self._moves.receive()) is not None:
                thread.submit(_COMMANDS.decode(frame))

        threading.Thread(target=take_commands, name="commands", daemon=True).start()
        return thread.stop

    def _say_alive(self) -> None:
        try:
            while True:
                self._orders.tell(RankAlive())
                time.sleep(self.start.timeout_s / WORDS_PER_TIMEOUT)
        except OSError:  # the parent is gone: the main thread learns it as well
            return

    def _say_failed(self, word: RankFailed) -> None:
        try:
            self._orders.tell(word)
        except OSError:  # nobody is there to hear it
            return

    def _crash(self, error: BaseException) -> None:
        self.log.error("failed", detail=repr(error))
        os._exit(EXIT_BUG)


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the whole group: the first rank hears it and drains
        signal.signal(number, signal.SIG_IGN)
    orders, moves = (inherited_channel(int(text), PARENT_TIMEOUT_S) for text in sys.argv[1:3])
    told = orders.receive()
    if told is None:
        return 0
    start = msgspec.msgpack.decode(told, type=RankStart)
    die_with_parent(start.parent_pid)
    os.sched_setaffinity(0, start.cores)
    return Worker(start, orders, moves).run()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # other threads, and those of libraries, end with the process
