"""`baton bench` from its first moment on: a Ctrl-C gives one line, also while the libraries of a load are read."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 128 + signal.SIGINT
INTERRUPTED = "baton bench: interrupted before anything was measured\n"


def main(arguments: list[str] | None = None) -> int:
    with ends_at_interrupt():
        from baton.services.loadgen import command
    try:
        return command.main(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("baton bench: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """At once: some libraries would make something else of an exception while they are read."""
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


if __name__ == "__main__":
    sys.exit(main())
