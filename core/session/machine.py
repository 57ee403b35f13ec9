"""One end of one link: handshake, numbering, heartbeats. Knows nothing of what is said.

The dialing end knocks with a number of its own, the accepting end answers with the number of the session: as each end
numbers what it begins, no frame that was doubled, delayed or lost can join the halves of two sessions. Inside a session
frames with messages are numbered, so a loss shows with the next one or the next heartbeat, and the answer to any loss
is the same: the session is reset, both machines see PeerDown and PeerUp, and start with their inventories. A duplicate
is dropped by its number, a frame of an old session by its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from baton.core.ids import Peer
from baton.core.wire import frames as f
from baton.core.wire.codec import decode_peer, encode_peer

COUNTER_BITS = 20  #: a number is the epoch of the end that gives it and a counter of this many bits


class LinkTiming(NamedTuple):
    """When a link beats and when its silence counts as loss."""

    heartbeat_s: float = 1.0
    silence_s: float = 3.5


class Transmit(msgspec.Struct, frozen=True, tag=120):
    """Hand these bytes to the link's socket."""

    link: str
    data: bytes


class Up(NamedTuple):
    """A session began."""

    peer: Peer


class Down(NamedTuple):
    """The session ended."""

    peer: Peer
    reason: str


class Heard(msgspec.Struct, frozen=True, gc=False):
    """The next message of the session, still encoded."""

    body: bytes


class Rejected(NamedTuple):
    """The other end, or this one, refuses the pair."""

    detail: str


Outcome = Transmit | Up | Down | Heard | Rejected


class Session:
    """One end of a link. `accepts(peer)` returns why this pair must not talk, or None. `numbers` counts for all
    sessions of the process: a link may be forgotten and come back."""

    def __init__(
        self,
        own: Peer,
        link: str,
        dials: bool,
        accepts: Callable[[Peer], str | None],
        timing: LinkTiming,
        numbers: Iterator[int],
    ) -> None:
        self.link = link
        self.dials = dials
        self.peer: Peer | None = None  #: while up
        self.next_wake: float | None = None
        self._own = own
        self._accepts = accepts
        self._timing = timing
        self._knocked = 0  #: the number that the dialing end asked with last; 0: none yet
        self._session = 0  #: the number of the session that is up, or was last; 0: none yet
        self._numbers = numbers
        self._num_sent = 0
        self._num_heard = 0
        self._beat_at = 0.0
        self._silent_at = 0.0

    # ---- what the node asks for

    def dial(self, now: float) -> list[Outcome]:
        """Dialing end: begin a new session."""
        out = self._drop("dialed again")
        self._knocked = self._next_number()
        return [*out, *self._knock(now)]

    def _knock(self, now: float) -> list[Outcome]:
        """Ask for the session, again under the same number: a slow answer to the first Hello still counts."""
        self.next_wake = now + self._timing.heartbeat_s
        return [self._transmit(f.Hello(f.PROTOCOL_VERSION, self._knocked, encode_peer(self._own)))]

    def say(self, bodies: Sequence[bytes]) -> list[Outcome]:
        """Send the next messages; dropped without a session (the next one starts with inventories)."""
        if self.peer is None:
            return []
        out: list[Outcome] = []
        for batch in f.batches(bodies):
            out.append(self._transmit(f.Data(self._session, self._num_sent, batch)))
            self._num_sent += 1
        return out

    def reset(self, reason: str, now: float) -> list[Outcome]:
        """End the session because of what this end saw; a new one follows."""
        if self.dials:
            return [*self._drop(reason), *self.dial(now)]
        session = self._session
        return [*self._drop(reason), self._transmit(f.Reset(session))]

    def close(self) -> list[Outcome]:
        """End the session for good; the peer is told."""
        if self.peer is None:
            return []
        bye = self._transmit(f.Reset(self._session))
        return [*self._drop("closed"), bye]

    def wake(self, now: float) -> list[Outcome]:
        """`next_wake` has come."""
        if self.peer is None:
            return self._knock(now) if self.dials else []
        if now >= self._silent_at:
            return self.reset("silence", now)
        out: list[Outcome] = []
        if now >= self._beat_at:
            self._beat_at = now + self._timing.heartbeat_s
            out.append(self._transmit(f.Beat(self._session, self._num_sent)))
        self.next_wake = min(self._beat_at, self._silent_at)
        return out

    # ---- what the link brings

    def hear(self, frame: f.AnyFrame, now: float) -> list[Outcome]:
        """Apply one frame of the other end."""
        match frame:
            case f.Data():
                return self._hear_data(frame, now)
            case f.Beat():
                return self._hear_beat(frame, now)
            case f.Hello():
                return self._hear_hello(frame, now)
            case f.Welcome():
                return self._hear_welcome(frame, now)
            case f.Reset():
                return self._hear_reset(frame, now)
            case f.Reject():
                return self._hear_reject(frame, now)

    def _hear_data(self, frame: f.Data, now: float) -> list[Outcome]:
        if not self._is_current(frame.session):
            return self._stranger(frame.session)
        self._silent_at = now + self._timing.silence_s
        if frame.number < self._num_heard:
            return []
        if frame.number > self._num_heard:
            return self.reset(f"frame {self._num_heard} is missing", now)
        self._num_heard += 1
        return list(map(Heard, frame.bodies))

    def _hear_beat(self, frame: f.Beat, now: float) -> list[Outcome]:
        if not self._is_current(frame.session):
            return self._stranger(frame.session)
        self._silent_at = now + self._timing.silence_s
        if frame.num_sent > self._num_heard:
            return self.reset(f"frame {self._num_heard} is missing", now)
        return []

    def _hear_hello(self, frame: f.Hello, now: float) -> list[Outcome]:
        if self.dials:
            return []
        if self.peer is not None and frame.knock == self._knocked:
            return [self._welcome()]
        if frame.version != f.PROTOCOL_VERSION:
            detail = f"protocol version {frame.version}, this end speaks {f.PROTOCOL_VERSION}"
            return [self._transmit(f.Reject(frame.knock, detail)), Rejected(detail)]
        peer = decode_peer(frame.body)
        refusal = self._accepts(peer)
        if refusal is not None:
            return [self._transmit(f.Reject(frame.knock, refusal)), Rejected(refusal)]
        out = self._drop("the peer began a new session")
        self._knocked, self._session = frame.knock, self._next_number()
        return [*out, self._welcome(), self._rise(peer, now)]

    def _hear_welcome(self, frame: f.Welcome, now: float) -> list[Outcome]:
        if not self.dials or frame.knock != self._knocked:
            return []
        if self.peer is not None:  # a doubled Hello began two sessions, the first of which is over at the other end
            return [] if frame.session == self._session else self.reset("another session was begun", now)
        peer = decode_peer(frame.body)
        refusal = self._accepts(peer)
        if refusal is not None:
            return [Rejected(refusal)]
        self._session = frame.session
        return [self._rise(peer, now)]

    def _hear_reset(self, frame: f.Reset, now: float) -> list[Outcome]:
        if frame.session != self._session:
            return []
        if self.dials:
            return [*self._drop("the peer reset the session"), *self.dial(now)]
        return self._drop("the peer reset the session")

    def _hear_reject(self, frame: f.Reject, now: float) -> list[Outcome]:
        if frame.knock != self._knocked or not self.dials:
            return []
        return [*self._drop("rejected"), Rejected(frame.detail)]

    # ---- inside

    def _next_number(self) -> int:
        return (self._own.epoch << COUNTER_BITS) | next(self._numbers)

    def _welcome(self) -> Transmit:
        return self._transmit(f.Welcome(self._knocked, self._session, encode_peer(self._own)))

    def _is_current(self, session: int) -> bool:
        return self.peer is not None and session == self._session

    def _stranger(self, session: int) -> list[Outcome]:
        """A frame of a session that is not up here. Only the accepting end answers, so that no echo can circle."""
        if self.dials or session == 0:
            return []
        return [self._transmit(f.Reset(session))]

    def _rise(self, peer: Peer, now: float) -> Outcome:
        self.peer = peer
        self._num_sent = self._num_heard = 0
        self._beat_at = now + self._timing.heartbeat_s
        self._silent_at = now + self._timing.silence_s
        self.next_wake = self._beat_at
        return Up(peer)

    def _drop(self, reason: str) -> list[Outcome]:
        peer, self.peer = self.peer, None
        if not self.dials:
            self.next_wake = None
        return [] if peer is None else [Down(peer, reason)]

    def _transmit(self, frame: f.AnyFrame) -> Transmit:
        return Transmit(self.link, f.encode_frame(frame))
