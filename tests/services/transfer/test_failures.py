"""What goes wrong with one piece or one peer is reported once, and touches no other."""

import os
import signal

import msgspec
import pytest

from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    OpenTransport,
    Piece,
    PieceFailed,
    PieceLanded,
    Post,
    TransportClosed,
    TransportFailed,
    TransportOpened,
)
from baton.services.executor.transfer.metadata import decode_metadata, encode_metadata


def piece(piece_id, peer="decode", epoch=1, source=0, destination=0, slots=(0, 16), planes=(0, 8)):
    return Piece(piece_id, peer, epoch, source, destination, *slots, *planes)


@pytest.mark.parametrize(
    "bad",
    [
        piece(1, source=32),
        piece(1, source=-1),
        piece(1, destination=32),
        piece(1, destination=-1),
        piece(1, slots=(0, 17)),
        piece(1, slots=(-1, 4)),
        piece(1, slots=(5, 5)),
        piece(1, planes=(0, 9)),
        piece(1, planes=(4, 3)),
        piece(1, peer="unknown"),
        piece(1, epoch=2),
    ],
    ids=repr,
)
def test_a_piece_outside_the_memory_is_refused(bad_piece_pair, bad):
    writer, receiver = bad_piece_pair
    writer.send(Post((bad,)))
    assert writer.expect(PieceFailed).piece_id == 1
    assert (receiver.memory == 0xA5).all()


@pytest.fixture(scope="module")
def bad_piece_pair(module_stage, layout):
    """One connected pair for every bad piece: a refusal leaves it as it was."""
    writer, receiver = (module_stage.start(name, layout, 32) for name in ("prefill", "decode"))
    receiver.memory[:] = 0xA5
    module_stage.connect(writer, receiver)
    yield writer, receiver
    receiver.memory[:] = 0
    writer.send(Post((piece(2),)))
    assert writer.outcomes(1) == {2: None}


def test_pieces_before_the_connection_are_refused(stage, layout):
    writer = stage.start("prefill", layout, 32)
    writer.send(OpenTransport("decode", 1))
    writer.send(Post((piece(1),)))
    assert {type(writer.expect(PieceFailed | TransportOpened)) for _ in range(2)} == {PieceFailed, TransportOpened}


def test_metadata_that_leads_nowhere_fails_the_connection_and_leaves_the_peer_usable(tcp_stage, layout):
    writer, receiver = (tcp_stage.start(name, layout, 32) for name in ("prefill", "decode"))
    receiver.send(OpenTransport("prefill", 1))
    opened = receiver.expect(TransportOpened)
    good = decode_metadata(opened.metadata)
    hostile = [
        (b"", opened.base_address, 32),
        (os.urandom(400), opened.base_address, 32),
        (encode_metadata(msgspec.structs.replace(good, agent=os.urandom(300))), opened.base_address, 32),
        (encode_metadata(msgspec.structs.replace(good, agent=good.agent[:100])), opened.base_address, 32),
        (encode_metadata(msgspec.structs.replace(good, scratch_address=4096)), opened.base_address, 32),
        (opened.metadata, opened.base_address + 64, 32),
        (opened.metadata, opened.base_address, 33),
    ]
    for epoch, (metadata, base_address, num_blocks) in enumerate(hostile, start=10):
        writer.send(OpenTransport("decode", epoch))
        writer.expect(TransportOpened)
        writer.send(ConnectTransport("decode", epoch, metadata, base_address, num_blocks))
        assert writer.expect(TransportFailed).peer_epoch == epoch
        writer.send(CloseTransport("decode", epoch))
        assert writer.expect(TransportClosed).peer_epoch == epoch
    tcp_stage.connect(writer, receiver, epoch=2)


def test_pieces_to_a_peer_that_died_fail_and_those_to_another_land(stage, layout):
    writer, dead, alive = (stage.start(name, layout, 32) for name in ("prefill", "dead", "alive"))
    stage.connect(writer, dead)
    stage.connect(writer, alive)
    dead.kill()
    writer.send(Post((piece(1, "dead"), piece(2, "alive"), piece(3, "dead"), piece(4, "alive"))))
    landed, failed = set(), set()
    while len(landed) + len(failed) < 4 or not writer.events.empty():
        event = writer.expect(PieceLanded | PieceFailed | TransportFailed)
        if isinstance(event, TransportFailed):
            assert event.peer == "dead"
        else:
            (landed if isinstance(event, PieceLanded) else failed).add(event.piece_id)
    assert (landed, failed) == ({2, 4}, {1, 3})


def test_a_stopped_peer_holds_back_nothing_for_another_and_gets_its_pieces_later(stage, large_layout):
    writer, stopped, alive = (stage.start(name, large_layout, 8) for name in ("prefill", "stopped", "alive"))
    stage.connect(writer, stopped)
    stage.connect(writer, alive)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    whole = {"slots": (0, large_layout.block_size), "planes": (0, large_layout.num_planes)}
    writer.send(Post(tuple(piece(i, "stopped", destination=i, **whole) for i in range(8))))
    writer.send(Post(tuple(piece(100 + i, "alive", destination=i, **whole) for i in range(8))))
    outcomes = {}
    while not {100 + i for i in range(8)} <= outcomes.keys():
        outcomes |= writer.outcomes(1)
    os.kill(stopped.process.pid, signal.SIGCONT)
    outcomes |= writer.outcomes(16 - len(outcomes))
    assert set(outcomes.values()) == {None}
    assert [i for i in outcomes if i < 100] == list(range(8)), "pieces of one peer are proven in order"


def test_a_stopped_peer_can_be_closed_and_delays_no_connection_to_another(stage, large_layout):
    writer, stopped, alive = (stage.start(name, large_layout, 8) for name in ("prefill", "stopped", "alive"))
    stage.connect(writer, stopped)
    stopped.send(OpenTransport("prefill", 2))
    opened = stopped.expect(TransportOpened)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    whole = {"slots": (0, large_layout.block_size), "planes": (0, large_layout.num_planes)}
    writer.send(Post(tuple(piece(i, "stopped", destination=i, **whole) for i in range(8))))
    writer.send(OpenTransport("stopped", 2))
    writer.send(ConnectTransport("stopped", 2, opened.metadata, opened.base_address, 8))
    writer.send(CloseTransport("stopped", 1))
    writer.send(CloseTransport("stopped", 2))
    closed, answered = set(), set()
    while len(closed) < 2:
        event = writer.expect(TransportOpened | TransportClosed | PieceLanded | PieceFailed)
        if isinstance(event, TransportClosed):
            closed.add(event.peer_epoch)
        elif not isinstance(event, TransportOpened):
            answered.add(event.piece_id)
    assert answered == set(range(8))
    stage.connect(writer, alive)
    os.kill(stopped.process.pid, signal.SIGCONT)


def test_closing_reports_each_open_piece_once_and_then_that_the_agent_is_gone(stage, layout):
    writer = stage.start("prefill", layout, 32, faults={1: "delay:3600"})
    receiver = stage.start("decode", layout, 32)
    stage.connect(writer, receiver)
    writer.send(Post((piece(1), piece(2))))
    writer.send(CloseTransport("decode", 1))
    assert list(writer.outcomes(2)) == [1, 2]
    assert writer.expect(TransportClosed) == TransportClosed("decode", 1)
    writer.send(Post((piece(3),)))
    assert writer.expect(PieceFailed).piece_id == 3


def test_a_peer_under_a_new_epoch_is_a_new_connection(stage, layout, fill):
    writer, first = (stage.start(name, layout, 32) for name in ("prefill", "decode"))
    fill(writer, 1)
    stage.connect(writer, first)
    first.kill()
    second = stage.start("decode", layout, 32)
    stage.connect(writer, second, epoch=2)
    writer.send(CloseTransport("decode", 1))
    writer.expect(TransportClosed)
    writer.send(Post((piece(1, epoch=2, source=3, destination=4), piece(2, epoch=1))))
    outcomes = writer.outcomes(2)
    assert outcomes[1] is None
    assert outcomes[2] is not None
    assert (second.memory[4] == writer.memory[3]).all()


def test_opening_the_same_peer_and_epoch_again_after_a_close_works(stage, layout):
    writer, receiver = (stage.start(name, layout, 32) for name in ("prefill", "decode"))
    for piece_id in range(3):
        stage.connect(writer, receiver)
        writer.send(Post((piece(piece_id),)))
        assert writer.outcomes(1) == {piece_id: None}
        for end, peer in ((writer, "decode"), (receiver, "prefill")):
            end.send(CloseTransport(peer, 1))
            assert end.expect(TransportClosed) == TransportClosed(peer, 1)


def test_an_injected_failure_fails_that_piece_and_a_delayed_peer_holds_back_no_other(stage, layout):
    writer = stage.start("prefill", layout, 32, faults={1: "fail", 3: "delay:3600"})
    one, other = (stage.start(name, layout, 32) for name in ("one", "other"))
    stage.connect(writer, one)
    stage.connect(writer, other)
    writer.send(Post((piece(1, "one"), piece(2, "one"), piece(3, "one"), piece(4, "one"), piece(5, "other"))))
    assert writer.outcomes(3) == {1: "injected", 2: None, 5: None}
    writer.send(CloseTransport("one", 1))
    assert list(writer.outcomes(2)) == [3, 4]
