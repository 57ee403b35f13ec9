"""The set-up thread: opening, connecting and closing agents takes tens of milliseconds, and no peer waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from baton.core.errors import BadMessage
from baton.services.executor.transfer.errors import TransportBroken

Result = TypeVar("Result")
Continuation = Callable[[], None]


class SetupThread:
    """Runs one job after the other; `hand_back` brings each outcome to the transfer thread as a call to make there."""

    def __init__(self, hand_back: Callable[[Continuation], None]) -> None:
        self._hand_back = hand_back
        self._jobs: SimpleQueue[Callable[[], Continuation] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="transfer-setup", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def run(
        self, job: Callable[[], Result], on_done: Callable[[Result], None], on_failed: Callable[[str], None]
    ) -> None:
        """Run `job` here; then `on_done` with its result, or `on_failed` with what the peer did wrong, over there."""
        self._jobs.put(lambda: _outcome(job, on_done, on_failed))

    def stop(self) -> None:
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._hand_back(job())
            job = None  # nothing of an agent may stay referenced while this thread rests


def _outcome(
    job: Callable[[], Result], on_done: Callable[[Result], None], on_failed: Callable[[str], None]
) -> Continuation:
    try:
        result = job()
    except (TransportBroken, BadMessage) as error:
        detail = str(error)
        return lambda: on_failed(detail)
    except Exception as error:
        return _raiser(error)
    return lambda: on_done(result)


def _raiser(error: Exception) -> Continuation:
    def raise_it() -> None:
        raise error

    return raise_it
