"""Simulated transfers: what lands, when, and what ends a write."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from baton.core.executor import events as e
from baton.core.ids import Role
from baton.core.sim.env import Violation
from baton.core.sim.process import Process
from tests.support.sim_parts import Bench


def grant(writer: Process, reader: Process, *blocks: int) -> None:
    for block in blocks:
        reader.memory.grantees[block] = writer.life
    writer.transfer.books.windows[reader.life] = 1 << 20


def connect(bench: Bench, drives: bool = True, opens: bool = True) -> tuple[Process, Process]:
    """A prefill and a decode executor; block 0 … 3 of D are granted to P."""
    writer, reader = bench.executor("p", Role.PREFILL), bench.executor("d", Role.DECODE)
    reader.transfer.take(e.OpenTransport("p", 1))
    writer.transfer.take(e.OpenTransport("d", 1))
    bench.run()
    opened = next(event for event in bench.heard["d/1"] if isinstance(event, e.TransportOpened))
    reader.transfer.take(e.Drive("p", 1, True))
    if opens:
        writer.transfer.take(e.ConnectTransport("d", 1, opened.metadata, opened.base_address, 8))
        bench.run()
        assert e.TransportConnected("d", 1) in bench.heard["p/1"]
    if not drives:
        reader.transfer.take(e.Drive("p", 1, False))
    grant(writer, reader, 0, 1, 2, 3)
    return writer, reader


def piece(piece_id: int = 1, destination: int = 2, source: int = 5) -> e.Piece:
    return e.Piece(piece_id, "d", 1, source, destination, 0, 4, 0, 2)


def content(process: Process, block: int) -> list[list[int]]:
    return process.memory.cut(block, (0, 4), (0, 2))


@pytest.mark.parametrize("kind", ["tcp", "cma"])
def test_a_piece_lands_whole_and_is_reported_once(kind: str) -> None:
    bench = Bench(kind)
    writer, reader = connect(bench)
    writer.transfer.take(e.Post((piece(),)))
    bench.run()
    assert content(reader, 2) == content(writer, 5)
    assert sum(isinstance(event, e.PieceLanded) for event in bench.heard["p/1"]) == 1
    assert reader.memory.num_incoming == [0] * 8
    assert writer.transfer.is_idle


def test_over_tcp_nothing_lands_while_the_receiver_rests() -> None:
    bench = Bench("tcp")
    writer, reader = connect(bench, drives=False)
    writer.transfer.take(e.Post((piece(),)))
    bench.run()
    assert content(reader, 2) != content(writer, 5)
    assert reader.memory.num_incoming[2] == 1
    reader.transfer.take(e.Drive("p", 1, True))
    bench.run()
    assert content(reader, 2) == content(writer, 5)


def test_a_connection_waits_for_the_receivers_progress() -> None:
    bench = Bench()
    writer, reader = connect(bench, drives=False, opens=False)
    metadata = next(event for event in bench.heard["d/1"] if isinstance(event, e.TransportOpened))
    writer.transfer.take(e.ConnectTransport("d", 1, metadata.metadata, metadata.base_address, 8))
    bench.run()
    assert e.TransportConnected("d", 1) not in bench.heard["p/1"]
    reader.transfer.take(e.Drive("p", 1, True))
    bench.run()
    assert e.TransportConnected("d", 1) in bench.heard["p/1"]


def test_over_tcp_some_writes_outlive_their_writer_until_the_receiver_closes() -> None:
    outlived = 0
    for seed in range(20):
        bench = Bench("tcp", seed)
        writer, reader = connect(bench, drives=False)
        writer.transfer.take(e.Post((piece(1, 2), piece(2, 3))))
        bench.run()
        before = content(reader, 2), content(reader, 3)
        writer.die()
        writer.transfer.die()
        reader.transfer.take(e.Drive("p", 1, True))
        bench.run()
        outlived += (content(reader, 2), content(reader, 3)) != before
    assert 0 < outlived < 20


def test_after_the_receiver_closed_its_agent_nothing_lands_over_tcp() -> None:
    bench = Bench("tcp")
    writer, reader = connect(bench, drives=False)
    writer.transfer.take(e.Post((piece(),)))
    bench.run()
    before = content(reader, 2)
    reader.transfer.take(e.CloseTransport("p", 1))
    bench.run()
    assert e.TransportClosed("p", 1) in bench.heard["d/1"]
    assert content(reader, 2) == before
    assert any(isinstance(event, e.PieceFailed) for event in bench.heard["p/1"])
    assert reader.memory.num_incoming[2] == 0


def test_a_stopped_writer_goes_on_with_its_copy_later() -> None:
    bench = Bench("cma")
    writer, reader = connect(bench)
    writer.transfer.take(e.Post((piece(),)))
    writer.stop()
    bench.run()
    assert content(reader, 2) != content(writer, 5)
    writer.go_on()
    bench.run()
    assert content(reader, 2) == content(writer, 5)


def test_the_source_is_read_when_the_bytes_leave() -> None:
    bench = Bench("tcp")
    writer, reader = connect(bench, drives=False)
    writer.transfer.take(e.Post((piece(),)))
    bench.run()
    writer.memory.poison(5, 0, 4, "a test")
    reader.transfer.take(e.Drive("p", 1, True))
    bench.run()
    assert content(reader, 2) == content(writer, 5)


def test_a_write_on_a_reused_block_is_a_violation() -> None:
    bench = Bench("tcp")
    writer, reader = connect(bench, drives=False)
    writer.transfer.take(e.Post((piece(),)))
    bench.run()
    reader.memory.lives[2] += 1
    reader.transfer.take(e.Drive("p", 1, True))
    with pytest.raises(Violation, match="proof before reuse"):
        bench.run()


def test_a_write_that_nobody_granted_is_a_violation() -> None:
    bench = Bench()
    writer, _ = connect(bench)
    with pytest.raises(Violation, match="writes only what was granted"):
        writer.transfer.take(e.Post((piece(1, 6),)))


def test_more_than_the_window_in_flight_is_a_violation_but_one_piece_may_always_go() -> None:
    bench = Bench()
    writer, reader = connect(bench, drives=False)
    writer.transfer.books.windows[reader.life] = 8
    writer.transfer.take(e.Post((piece(1),)))
    with pytest.raises(Violation, match="window"):
        writer.transfer.take(e.Post((piece(2, 3),)))


def test_w1_more_than_one_piece_to_a_peer_that_is_not_measured_is_a_violation_with_adaptive_windows() -> None:
    bench = Bench("tcp")
    writer, _ = connect(bench)
    writer.transfer.books._config = replace(writer.transfer.config, window="adaptive")
    writer.transfer.take(e.Post((piece(1, 2),)))
    with pytest.raises(Violation, match="not measured"):
        writer.transfer.take(e.Post((piece(2, 3),)))
    writer.transfer.books.heard(1, True)
    writer.transfer.take(e.Post((piece(3, 3),)))


def test_closing_the_writers_agent_fails_its_pieces_before_it_says_closed() -> None:
    bench = Bench("tcp")
    writer, _ = connect(bench, drives=False)
    writer.transfer.take(e.Post((piece(),)))
    bench.run()
    writer.transfer.take(e.CloseTransport("d", 1))
    bench.run()
    kinds = [type(event) for event in bench.heard["p/1"][-2:]]
    assert kinds == [e.PieceFailed, e.TransportClosed]
    assert writer.transfer.is_idle


@pytest.mark.parametrize("ending", ["close", "error", "death"])
def test_bytes_outlive_what_the_writer_says_until_the_receiver_closes_its_own_agent(ending: str) -> None:
    outlived = 0
    for seed in range(30):
        bench = Bench("tcp", seed)
        writer, reader = connect(bench, drives=False)
        before = content(reader, 2), content(reader, 3)
        writer.transfer.take(e.Post((piece(1, 2), piece(2, 3))))
        bench.run()
        if ending == "close":
            writer.transfer.take(e.CloseTransport("d", 1))
        elif ending == "error":
            writer.transfer.break_agent(writer.transfer._agents["d", 1], "a test")
        else:
            writer.die()
            writer.transfer.die()
        bench.run()
        reader.transfer.take(e.Drive("p", 1, True))
        bench.run()
        outlived += (content(reader, 2), content(reader, 3)) != before
        reader.transfer.take(e.CloseTransport("p", 1))
        bench.run()
        assert reader.memory.num_incoming == [0] * 8
        assert writer.memory.num_outgoing == [0] * 8
    assert 0 < outlived < 30


@pytest.mark.parametrize("kind", ["tcp", "cma"])
def test_an_error_fails_every_piece_of_the_connection_and_then_the_transport(kind: str) -> None:
    for seed in range(20):
        bench = Bench(kind, seed)
        writer, _ = connect(bench)
        writer.transfer.num_failing_pieces = 1
        writer.transfer.take(e.Post((piece(1, 2), piece(2, 3))))
        bench.run()
        ends = [event for event in bench.heard["p/1"] if isinstance(event, e.PieceFailed | e.PieceLanded)]
        assert sorted(event.piece_id for event in ends) == [1, 2]
        refused = any("refused" in event.detail for event in ends if isinstance(event, e.PieceFailed))
        assert any(isinstance(event, e.TransportFailed) for event in bench.heard["p/1"]) != refused
