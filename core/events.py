"""What every machine has in common: `handle(event, now) → commands`, `next_wake`, and what a session delivers.

A machine reads no clock: `now` is seconds on one monotonic clock. `next_wake` is the time at which it wants a `Wake`
(None: never); the driver reads it after every turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from baton.core.errors import Reason
from baton.core.ids import Peer


class Wake(msgspec.Struct, frozen=True, tag=100):
    """`next_wake` has come."""


class PeerUp(msgspec.Struct, frozen=True, tag=101):
    """A session with this peer begins: everything said before is either delivered or lost."""

    peer: Peer


class PeerDown(msgspec.Struct, frozen=True, tag=102):
    """The session is over. Says nothing about the peer's life."""

    peer: Peer
    reason: str


class Received(msgspec.Struct, frozen=True, tag=103):
    """A message of the current session."""

    peer: Peer
    message: Any


class Several(msgspec.Struct, frozen=True, tag=104):
    """What has come while the process was busy, in order: one turn for all of it. Never holds another one."""

    events: tuple[Any, ...]


class Send(msgspec.Struct, frozen=True, tag=110):
    """Say this to the peer in the current session; dropped if there is none (the next one starts with inventories)."""

    peer: str
    message: Any


class ConnectLink(msgspec.Struct, frozen=True, tag=111):
    """Open (or keep open) a link to this process."""

    peer: Peer


class DropLink(msgspec.Struct, frozen=True, tag=112):
    """Close the link that ConnectLink opened."""

    peer: str


class Note(msgspec.Struct, frozen=True, tag=113):
    """One structured log line about a request or a peer, and the counters that go with it.

    `what` is one of a fixed set of texts, since it labels a counter; what varies is in the other fields.
    """

    what: str
    request_id: int = 0
    attempt: int = 0
    reason: Reason | None = None
    numbers: dict[str, float] = {}
    peer: str = ""  #: whom it is about
    detail: str = ""
    why: str = ""  #: of what was decided; one of a fixed set of texts, as `what`


class Span(msgspec.Struct, frozen=True, tag=114):
    """Something that lasted and is over: a hold, a protection, a wait. For the trace and the histograms, not the log.

    Said once, when it ends. `what` is one of a fixed set of texts, as a note's.
    """

    what: str  #: hold, protection, prefix wait, …
    since: float  #: on the clock of `now`
    ended_at: float
    reason: Reason | None = None  #: why it lasted
    until: float = 0.0  #: when it would have ended by itself (C28); 0: it waited for somebody else
    ended_by: str = ""  #: what ended it, such as the reason of a fire
    request_id: int = 0  #: whom it kept back; 0: no single one
    attempt: int = 0


def each_of(event: Any) -> tuple[Any, ...]:
    """The events of one turn, in order."""
    return event.events if type(event) is Several else (event,)


def one_of(events: Sequence[Any]) -> Any:
    """One event of one or more, to be taken in one turn."""
    return events[0] if len(events) == 1 else Several(tuple(events))


class Machine(Protocol):
    """One of the four deciding machines."""

    next_wake: float | None

    def handle(self, event: Any, now: float) -> Sequence[Any]:
        """Apply one event, or `Several`, and return what must be done, in order. Never raises for what a peer or client
        did."""
        ...

    def check_invariants(self) -> None:
        """Raise InvariantViolated if a law of this machine's state is broken."""
        ...

    def quiescent(self) -> bool:
        """Whether nothing of any request is left."""
        ...

    def gauges(self) -> dict[str, float]:
        """Values by name, for `/metrics`; a name that ends in `_total` never falls."""
        ...

    def readiness(self) -> str:
        """Empty when a request would work now, else why not."""
        ...

    def unfinished(self) -> Sequence[Note | Span]:
        """What a trace would miss: closing lines and spans of what is under way, as far as they can be said now."""
        ...
