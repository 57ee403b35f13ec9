"""The journal's format: what is written comes back, what is no journal is refused, a difference is found."""

from __future__ import annotations

import io

import msgpack
import pytest

from baton.core.config import RouterConfig
from baton.core.events import ConnectLink, Wake
from baton.core.ids import Peer, Role
from baton.core.journal import BadJournal, JournalHeader, JournalWriter, decode_event, read_journal, replay
from baton.core.router.machine import RouterCore
from baton.core.session.machine import LinkTiming
from baton.core.session.node import FrameArrived, Node

OWN = Peer("router0", Role.ROUTER, 3)
HEADER = JournalHeader(own=OWN, heartbeat_s=1.0, silence_s=3.5, router=RouterConfig())
DIAL = ConnectLink(Peer("scheduler", Role.SCHEDULER, 0, "ipc://s"))


def node() -> Node:
    return Node(OWN, RouterCore(OWN, RouterConfig()), LinkTiming(1.0, 3.5))


def journal_of(*events: tuple[float, object]) -> io.BytesIO:
    stream, live = io.BytesIO(), node()
    writer = JournalWriter(stream, HEADER)
    for now, event in events:
        writer.record(now, event, live.handle(event, now))
    return io.BytesIO(stream.getvalue())


def test_header_and_events_come_back_as_they_were() -> None:
    frame = FrameArrived("scheduler", b"\x00\xff")
    header, turns = read_journal(journal_of((1.0, DIAL), (2.0, frame), (3.5, Wake())))
    assert header == HEADER
    assert [(turn.now, decode_event(turn.event)) for turn in turns] == [(1.0, DIAL), (2.0, frame), (3.5, Wake())]


def test_a_fresh_node_gives_the_same_commands() -> None:
    _, turns = read_journal(journal_of((1.0, DIAL), (2.5, Wake()), (4.0, Wake())))
    assert replay(turns, node()) == (3, None)


def test_the_first_difference_is_named() -> None:
    _, turns = read_journal(journal_of((1.0, DIAL), (2.5, Wake())))
    other = Node(Peer("router0", Role.ROUTER, 4), RouterCore(OWN, RouterConfig()), LinkTiming(1.0, 3.5))
    count, difference = replay(turns, other)
    assert count == 0
    assert difference is not None
    assert difference.turn_index == 0
    assert difference.commands != difference.turn.commands


def test_a_record_that_was_cut_off_is_left_out() -> None:
    data = journal_of((1.0, DIAL), (2.5, Wake())).getvalue()
    _, turns = read_journal(io.BytesIO(data[:-3]))
    assert len(list(turns)) == 1


@pytest.mark.parametrize("data", [b"", b"\x01", msgpack.packb(b"nothing"), msgpack.packb([1, 2]), b"\xc1\xc1"])
def test_what_is_no_journal_is_refused(data: bytes) -> None:
    with pytest.raises(BadJournal):
        read_journal(io.BytesIO(data))


def test_another_format_is_refused() -> None:
    stream = io.BytesIO()
    JournalWriter(stream, JournalHeader(version=99, own=OWN, heartbeat_s=1.0, silence_s=3.5))
    with pytest.raises(BadJournal, match="99"):
        read_journal(io.BytesIO(stream.getvalue()))
