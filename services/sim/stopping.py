"""Ctrl-C while something is simulated: what there is by then is reported."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Stopping:
    """As a context: the first Ctrl-C asks for the end of the run, a second one raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self.is_asked = False
        self._before: signal._HANDLER = None

    def __enter__(self) -> Stopping:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:  # not where it is ignored, as for a shell's background job
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = True
        signal.signal(signal.SIGINT, self._before)
