"""X3: a journal of a node's events, fed to a fresh node, gives the same commands byte for byte."""

from __future__ import annotations

import io

import pytest

from baton.core.config import ExecutorConfig
from baton.core.events import ConnectLink, Several, Wake, each_of
from baton.core.executor.events import Drain, StepDone
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import AttemptId, Peer, Role
from baton.core.journal import BadJournal, JournalHeader, JournalWriter, decode_event, read_journal, replay
from baton.core.session.machine import LinkTiming
from baton.core.session.node import FrameArrived, LinkFull, LinkGone, Node
from baton.core.wire import messages as m
from tests.support.machines import KEY, LAYOUT, ROUTER, SCHEDULER, CountingDevice, an_executor, prompt, work
from tests.support.peers import Caller

OWN = an_executor("unified", Role.UNIFIED)
CONFIG = ExecutorConfig(token_budget=64, num_slots=16, growth_reserve=8)
CHANGED = ExecutorConfig(token_budget=64, num_slots=16, growth_reserve=8, num_queued_steps=1)


def fresh() -> Node:
    return Node(OWN, ExecutorCore(OWN, LAYOUT, CONFIG, KEY), LinkTiming(1.0, 3.5))


class Recorded(Node):
    """Writes every turn to the journal."""

    def __init__(self, writer: JournalWriter) -> None:
        super().__init__(OWN, ExecutorCore(OWN, LAYOUT, CONFIG, KEY), LinkTiming(1.0, 3.5))
        self.writer = writer

    def handle(self, event, now):
        out = super().handle(event, now)
        self.writer.record(now, event, out)
        return out


def a_life() -> io.BytesIO:
    stream = io.BytesIO()
    header = JournalHeader(own=OWN, heartbeat_s=1.0, silence_s=3.5, executor=CONFIG, layout=LAYOUT)
    node = Recorded(JournalWriter(stream, header))
    scheduler, router = Caller(node, SCHEDULER), Caller(node, ROUTER)
    scheduler.dial()
    router.dial()
    node.handle(ConnectLink(Peer("other", Role.ROUTER, 1, "there")), 100.0)
    scheduler.say(m.Run(AttemptId(1, 0), work(prompt(10), max_tokens=3), m.Order(0, 0, 1), 3, 60_000))
    device = CountingDevice()
    while node.machine.state.steps:
        plan = node.machine.state.steps[0].plan
        device.launch(plan)
        node.handle(StepDone(device.answer(plan, {})), 101.0)
    node.handle(Wake(), 101.5)
    node.handle(Several((Wake(), scheduler.data(m.Abort(AttemptId(1, 0))), Drain())), 101.7)
    router.bytes(b"\xc1")
    node.handle(LinkFull(router.link), 102.0)
    node.handle(LinkGone(scheduler.link), 102.0)
    stream.seek(0)
    return stream


def test_x3_a_journal_replays_to_the_same_commands():
    header, turns = read_journal(a_life())
    assert (header.own, header.executor, header.layout) == (OWN, CONFIG, LAYOUT)
    count, difference = replay(turns, fresh())
    assert difference is None
    assert count >= 10


def test_x3_what_was_taken_in_one_turn_is_read_as_one_event():
    _, turns = read_journal(a_life())
    kinds = [[type(one) for one in each_of(decode_event(turn.event))] for turn in turns]
    assert [Wake, FrameArrived, Drain] in kinds


def test_x3_a_difference_is_found_with_its_turn():
    _, turns = read_journal(a_life())
    other = Node(OWN, ExecutorCore(OWN, LAYOUT, CHANGED, KEY), LinkTiming(1.0, 3.5))
    count, difference = replay(turns, other)
    assert difference is not None
    assert difference.turn_index == count
    assert isinstance(decode_event(difference.turn.event), FrameArrived)


def test_a_journal_that_was_cut_off_is_read_up_to_there():
    whole = a_life().getvalue()
    num_whole = len(list(read_journal(io.BytesIO(whole))[1]))
    assert len(list(read_journal(io.BytesIO(whole[:-3]))[1])) == num_whole - 1


@pytest.mark.parametrize("data", [b"", b"\xc1", b"not a journal", b"\x80"])
def test_what_is_no_journal_is_refused(data):
    with pytest.raises(BadJournal):
        read_journal(io.BytesIO(data))
