"""What can be wrong with a load that was asked for. Each message is one line, fit for whoever typed the command."""

from __future__ import annotations

from baton.core.errors import ServingError

MAX_REQUESTS = 1_000_000  #: of one run, and of its warm-up: more is a slip of the hand, which must not cost all memory


class BadLoad(ServingError):
    """An option, or options together, that make no load."""


class TooMany(BadLoad):
    """More requests than a run may have."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: more than {MAX_REQUESTS:,} requests, the most that a run can have")


class NoTimes(BadLoad):
    """A trace that does not say when its requests come, and nothing else does."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        super().__init__(f"{trace}: it has no times; give a rate or a concurrency")


class BadTrace(BadLoad):
    """A file of a load that cannot be read; the message names file, line and field."""
