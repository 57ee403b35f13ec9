"""A Ctrl-C before anything is measured: one line, and the process ends. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 128 + signal.SIGINT
INTERRUPTED = "baton bench: interrupted before anything was measured\n"


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """At once: some libraries make something else of an exception while they are read, or lose a cancellation while
    they connect."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where it is ignored, as for a shell's background job
        signal.signal(signal.SIGINT, end_process)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_process(number: int, frame: FrameType | None) -> None:
    os.write(2, INTERRUPTED.encode())
    os._exit(EXIT_INTERRUPTED)
