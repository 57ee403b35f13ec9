"""A process without its I/O: one deciding machine and the sessions of its links, as one machine.

This is what the driver runs, the journal records and the simulator permutes: `handle(event, now) → commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from baton.core.errors import BadMessage, InvariantViolated
from baton.core.events import (
    ConnectLink,
    DropLink,
    Machine,
    Note,
    PeerDown,
    PeerUp,
    Received,
    Send,
    Wake,
    each_of,
    one_of,
)
from baton.core.ids import Peer
from baton.core.session.machine import Down, Heard, LinkTiming, Outcome, Rejected, Session, Transmit, Up
from baton.core.wire.codec import decode_message, encode_message, may_link
from baton.core.wire.frames import Beat, Data, decode_frame

GOES_ON = (Data, Beat)  #: frames that neither begin nor end a session


class FrameArrived(msgspec.Struct, frozen=True, tag=130):
    """The socket of `link` brought these bytes. Dialed links are named like their peer, accepted ones `name/…` like the
    process that dialed: the transport has proven that its key is of that name."""

    link: str
    data: bytes


class OpenLink(msgspec.Struct, frozen=True, tag=131):
    """Driver: connect a socket for this link."""

    link: str
    address: str


class CloseLink(msgspec.Struct, frozen=True, tag=132):
    """Driver: close the socket of this link."""

    link: str


class LinkFull(msgspec.Struct, frozen=True, tag=133):
    """The socket of `link` took no more bytes: what was said is lost."""

    link: str


class LinkGone(msgspec.Struct, frozen=True, tag=134):
    """Whoever had dialed `link` holds it no more: what was said is lost. It has ended, or dials anew."""

    link: str


class Node:
    """Joins a machine to its links. At most one session is up with each peer name; the newest epoch wins."""

    def __init__(self, own: Peer, machine: Machine, timing: LinkTiming | None = None) -> None:
        self.own = own
        self.machine = machine
        self.next_wake: float | None = None
        self._timing = timing or LinkTiming()
        self._sessions: dict[str, Session] = {}  #: by link
        self._link_of: dict[str, str] = {}  #: peer name → the link whose session with it is up
        self._dialed: dict[str, Peer] = {}  #: link → whom it was opened for
        self._numbers = count(1)  #: of hellos and sessions
        self._epochs: dict[str, int] = {}  #: peer name → newest epoch that was up
        self._said: dict[str, list[bytes]] = {}  #: by link: what the machine said in this turn, encoded and not sent
        self._heard: list[Any] = []  #: events of this turn that the machine is still to take, in one turn of its own
        self._wakes: dict[str, float] = {}  #: by link: when its session wants a wake, if it does
        self._first_wake: float | None = None  #: of all of these
        self._events: dict[type, Callable[[Any, float, list[Any]], None]] = {
            FrameArrived: self._frame,
            LinkFull: lambda event, now, out: self._lost(event.link, "the link is full", now, out),
            LinkGone: lambda event, now, out: self._lost(event.link, "the peer is gone", now, out),
            Wake: lambda _, now, out: self._wake(now, out),
            ConnectLink: self._link,
            DropLink: self._link,
        }

    def handle(self, event: Any, now: float) -> list[Any]:
        """Apply what has come to the driver (of sockets, timers or the machine's own I/O) and return all commands, in
        order. All that reaches the machine is one turn of it, unless a session begins or ends in between."""
        out: list[Any] = []
        for happened in each_of(event):
            own = self._events.get(type(happened))
            if own is None:
                self._heard.append(happened)
            else:
                own(happened, now, out)
        self._run_machine(now, out)
        for link in list(self._said):
            self._send_said(self._sessions[link], out)
        self._set_wake()
        return out

    def _link(self, event: ConnectLink | DropLink, now: float, out: list[Any]) -> None:
        self._run_machine(now, out)
        self._perform([event], now, out)

    def _run_machine(self, now: float, out: list[Any]) -> None:
        """The machine takes what was heard so far, and its answers are performed."""
        if self._heard:
            events, self._heard = self._heard, []
            self._perform(self.machine.handle(one_of(events), now), now, out)

    def check_invariants(self) -> None:
        """Raises InvariantViolated: the machine's, and when a session's wake would be missed."""
        self.machine.check_invariants()
        wakes = {link: session.next_wake for link, session in self._sessions.items() if session.next_wake is not None}
        if wakes != self._wakes:
            raise InvariantViolated(f"sessions want wakes at {wakes}, known are {self._wakes}")

    def _wake(self, now: float, out: list[Any]) -> None:
        for session in list(self._sessions.values()):
            if session.next_wake is not None and session.next_wake <= now:
                self._send_said(session, out)
                self._apply(session, session.wake(now), now, out)
        if self.machine.next_wake is not None and self.machine.next_wake <= now:
            self._heard.append(Wake())

    def _send_said(self, session: Session, out: list[Any]) -> None:
        """What the machine said in this turn, in one frame: at its end, and before the session itself does anything."""
        bodies = self._said.pop(session.link, None)
        if bodies:
            out.extend(session.say(bodies))

    def _lost(self, link: str, reason: str, now: float, out: list[Any]) -> None:
        self._run_machine(now, out)
        session = self._sessions.get(link)
        if session is not None and session.peer is not None:  # else nothing was said that could be lost
            self._apply(session, session.reset(reason, now), now, out)

    def _frame(self, event: FrameArrived, now: float, out: list[Any]) -> None:
        session = self._sessions.get(event.link)
        try:
            frame = decode_frame(event.data)
            if not isinstance(frame, GOES_ON):  # it may begin or end a session: what came before is heard before
                self._run_machine(now, out)
                session = self._sessions.get(event.link)
            if session is None:
                session = self._new_session(event.link, False)
                self._sessions[event.link] = session
            self._apply(session, session.hear(frame, now), now, out)
        except BadMessage as error:
            out.append(Note("bad frame", peer=event.link, detail=str(error)))
            if session is not None:
                self._forget_if_over(session)

    def _apply(self, session: Session, outcomes: Sequence[Outcome], now: float, out: list[Any]) -> None:
        """Hand a session's outcomes on; the machine's answers are performed at once, in order."""
        for outcome in outcomes:
            match outcome:
                case Heard():
                    self._hear(session, outcome, now, out)
                case Transmit():
                    out.append(outcome)
                case Up():
                    self._up(session, outcome.peer, now, out)
                case Down():
                    self._run_machine(now, out)
                    self._said.pop(session.link, None)  # it belongs to the session that is over
                    if self._link_of.get(outcome.peer.name) == session.link:
                        del self._link_of[outcome.peer.name]
                    out.append(Note("peer lost", peer=outcome.peer.name, detail=outcome.reason))
                    self._perform(self.machine.handle(PeerDown(outcome.peer, outcome.reason), now), now, out)
                case Rejected():
                    out.append(Note("link rejected", peer=session.link, detail=outcome.detail))
        self._forget_if_over(session)
        self._note_wake(session.link)

    def _forget_if_over(self, session: Session) -> None:
        """An accepted link without a session leaves nothing behind, however many of them there are."""
        if session.peer is None and not session.dials and self._sessions.get(session.link) is session:
            del self._sessions[session.link]

    def _up(self, session: Session, peer: Peer, now: float, out: list[Any]) -> None:
        old = self._link_of.get(peer.name)
        if old is not None and old != session.link:
            older = self._sessions[old]
            self._send_said(older, out)
            self._apply(older, older.reset("the peer came on another link", now), now, out)
        self._epochs[peer.name] = peer.epoch
        self._link_of[peer.name] = session.link
        out.append(Note("peer up", peer=peer.name, detail=f"epoch {peer.epoch}"))
        self._perform(self.machine.handle(PeerUp(peer), now), now, out)

    def _hear(self, session: Session, heard: Heard, now: float, out: list[Any]) -> None:
        peer = session.peer
        if peer is None:  # an earlier message of this frame ended the session
            return
        try:
            message = decode_message(heard.body, peer.role, self.own.role)
        except BadMessage as error:
            out.append(Note("bad message", peer=session.link, detail=str(error)))
            self._run_machine(now, out)
            self._send_said(session, out)
            self._apply(session, session.reset("bad message", now), now, out)
            return
        self._heard.append(Received(peer, message))

    def _perform(self, commands: Sequence[Any], now: float, out: list[Any]) -> None:
        for command in commands:
            kind = type(command)
            if kind is Send:
                link = self._link_of.get(command.peer)
                if link is not None:
                    self._said.setdefault(link, []).append(encode_message(command.message))
            elif kind is ConnectLink:
                self._connect(command.peer, now, out)
            elif kind is DropLink:
                self._disconnect(command.peer, now, out)
            else:
                out.append(command)

    def _connect(self, peer: Peer, now: float, out: list[Any]) -> None:
        known = self._dialed.get(peer.name)
        if known is not None and known.address == peer.address:
            self._dialed[peer.name] = peer
            return
        if known is not None:
            self._disconnect(peer.name, now, out)
        session = self._new_session(peer.name, True)
        self._sessions[peer.name] = session
        self._dialed[peer.name] = peer
        out.append(OpenLink(peer.name, peer.address))
        self._apply(session, session.dial(now), now, out)

    def _disconnect(self, name: str, now: float, out: list[Any]) -> None:
        session = self._sessions.get(name)
        if session is None or name not in self._dialed:
            return
        del self._dialed[name]
        self._send_said(session, out)
        self._apply(session, session.close(), now, out)
        del self._sessions[name]
        self._note_wake(name)
        out.append(CloseLink(name))

    def _new_session(self, link: str, dials: bool) -> Session:
        return Session(self.own, link, dials, partial(self._refusal, link), self._timing, self._numbers)

    def _refusal(self, link: str, peer: Peer) -> str | None:
        """Why this process must not talk with that one over this link, or None."""
        if peer.name != link.partition("/")[0]:
            return f"a link of {link} speaks for no {peer.name}"
        if not peer.role.may_be_called(peer.name):
            return f"{peer.name} is no name of a {peer.role.name}"
        if not may_link(peer.role, self.own.role):
            return f"a {peer.role.name} has no link to a {self.own.role.name}"
        if peer.epoch < self._epochs.get(peer.name, 0):
            return f"epoch {peer.epoch} of {peer.name} is over"
        ours, theirs = self.own.layout_fingerprint, peer.layout_fingerprint
        if ours and theirs and ours != theirs:
            return "the KV layouts (model, tokenizer, block size or geometry) differ"
        return None

    def _note_wake(self, link: str) -> None:
        """The session of this link was used, or is gone: whoever has many does not look at all of them each turn."""
        session = self._sessions.get(link)
        wake = None if session is None else session.next_wake
        if self._wakes.get(link) == wake:
            return
        if wake is None:
            del self._wakes[link]
        else:
            self._wakes[link] = wake
        self._first_wake = min(self._wakes.values(), default=None)

    def _set_wake(self) -> None:
        first, own = self._first_wake, self.machine.next_wake
        self.next_wake = own if first is None or (own is not None and own < first) else first
