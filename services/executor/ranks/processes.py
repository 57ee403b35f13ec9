"""The other ranks as processes: started, waited for, watched and ended by the first one.

A rank that ends, or says nothing for the timeout, ends the group. Ranks end with their parent: by the end of their
stream, and by the kernel if that cannot be.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import msgspec

from baton.core.errors import Incompatible, ServingError
from baton.services.executor.ranks.channel import Channel, channel_pair
from baton.services.executor.ranks.messages import Meet, RankFailed, RankLoaded, RankStart, RankWord

END_TIMEOUT_S = 10.0  #: for a rank to end by itself once it was asked to
EXIT_TIMEOUT_S = 1.0  #: from the end of a rank's stream to its exit
EXIT_GROUP_INCOMPLETE = 73  #: the executor's, where the group could not start; another start may go well

_WORDS = msgspec.msgpack.Decoder(RankWord)


class GroupIncomplete(ServingError):
    """A rank ended, or did not come in time, while the group was starting."""


class RankProcess:
    """One other rank. `heard` gets what it says, and None when it is gone; `why` tells then what happened."""

    def __init__(self, start: RankStart, heard: SimpleQueue[tuple[int, RankWord | None]]) -> None:
        self.rank = start.shard.rank
        self.why = ""
        self._heard = heard
        self._timeout_s = start.timeout_s
        self.orders, their_orders = channel_pair(start.timeout_s)
        self.moves, their_moves = channel_pair(start.timeout_s)
        ends = (their_orders, their_moves)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "baton.services.executor.ranks.worker", *(str(e.fileno()) for e in ends)],
            stdin=subprocess.DEVNULL,
            pass_fds=[end.fileno() for end in ends],
        )
        _close(ends)
        self._watcher = threading.Thread(target=self._watch, name=f"rank{self.rank}-watch", daemon=True)
        self._watcher.start()
        try:
            self.orders.tell(start)
        except OSError:  # it is gone already, and the watcher says so
            return

    def ask_to_end(self) -> None:
        self.orders.shut()
        self.moves.shut()

    def end(self, until: float) -> None:
        """Wait for its end until then (monotonic), and kill it if it has not come."""
        try:
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _watch(self) -> None:
        """While it loads, it may be silent: a library that is being loaded lets no thread speak."""
        has_loaded = False
        while not self.why:
            if has_loaded and self.orders.is_silent(self._timeout_s):
                self.why = f"said nothing for {self._timeout_s:g} s"
            elif (frame := self.orders.receive()) is None:
                self.why = self._how_it_ended()
            else:
                word = _WORDS.decode(frame)
                has_loaded = has_loaded or isinstance(word, RankLoaded)
                self._heard.put((self.rank, word))
        self._heard.put((self.rank, None))

    def _how_it_ended(self) -> str:
        try:
            return f"ended with exit code {self.process.wait(EXIT_TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            return "closed its stream"


class RankProcesses:
    """All other ranks of a group, started. Then `wait_loaded`, `meet`, `watch`, `tell`; `end` last, from any state."""

    def __init__(self, starts: list[RankStart]) -> None:
        self._timeout_s = max(start.timeout_s for start in starts)
        self._heard: SimpleQueue[tuple[int, RankWord | None]] = SimpleQueue()
        self._is_ending = False
        self.others = [RankProcess(start, self._heard) for start in starts]

    @property
    def pids(self) -> list[int]:
        return [other.process.pid for other in self.others]

    def wait_loaded(self) -> None:
        """Until every rank has loaded, at most the timeout from now on: this rank has loaded as much.

        Raises GroupIncomplete, and Incompatible where a rank would fail again.
        """
        until = time.monotonic() + self._timeout_s
        missing = {other.rank for other in self.others}
        while missing:
            try:
                rank, word = self._heard.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                names = ", ".join(map(str, sorted(missing)))
                raise GroupIncomplete(
                    f"device.rank_timeout_s = {self._timeout_s:g}: rank {names} did not come in time"
                ) from None
            if isinstance(word, RankLoaded):
                missing.discard(rank)
            elif isinstance(word, RankFailed):
                raise (Incompatible if word.is_refusal else GroupIncomplete)(f"rank {rank}: {word.detail}")
            elif word is None:
                raise GroupIncomplete(f"rank {rank} {self.others[rank - 1].why} before it had loaded its part")

    def meet(self, store: str) -> None:
        """Ask all to meet there. Raises GroupIncomplete."""
        for other in self.others:
            try:
                other.orders.tell(Meet(store))
            except OSError as error:
                raise GroupIncomplete(f"rank {other.rank} {other.why or 'is gone'}: {error}") from error

    def watch(self, on_lost: Callable[[str], None]) -> None:
        """From now on: `on_lost` is called once, on a thread, when a rank is gone or has said why it cannot go on."""
        threading.Thread(target=self._watch, args=(on_lost,), name="ranks", daemon=True).start()

    def tell(self, order: bytes) -> None:
        """A step order for all. Raises OSError."""
        for other in self.others:
            other.orders.send(order)

    def end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Ask all to end, and kill those that have not after so long. Idempotent."""
        self._is_ending = True
        for other in self.others:
            other.ask_to_end()
        until = time.monotonic() + timeout_s
        for other in self.others:
            other.end(until)

    def channels(self) -> list[Channel]:
        """For transport commands, by rank from 1 on."""
        return [other.moves for other in self.others]

    def _watch(self, on_lost: Callable[[str], None]) -> None:
        while True:
            rank, word = self._heard.get()
            if self._is_ending:
                return
            if isinstance(word, RankFailed):
                on_lost(f"rank {rank}: {word.detail}")
                return
            if word is None:
                on_lost(f"rank {rank} {self.others[rank - 1].why}")
                return


def _close(ends: tuple[socket.socket, ...]) -> None:
    for end in ends:
        end.close()
