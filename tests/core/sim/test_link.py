"""Simulated links: FIFO, lossy at a break, patient at the dialing end."""

from __future__ import annotations

from baton.core.ids import Role
from baton.core.session.node import FrameArrived, LinkFull
from baton.core.sim.link import Network
from tests.support.sim_parts import Bench


def pair(max_unread: int = 100):
    bench = Bench()
    network = Network(bench.env, 1e-3, max_unread)
    server, client = bench.process("server", Role.SCHEDULER), bench.process("client")
    network.bind(server)
    network.open(client, "server", "sim://server")
    return bench, network, server, client


def data_of(events: list) -> list[bytes]:
    return [event.data for event in events if isinstance(event, FrameArrived)]


def test_frames_come_in_order_and_answers_go_to_the_identity():
    bench, network, server, client = pair()
    for number in range(50):
        network.transmit(client, "server", b"%d" % number)
    bench.run()
    assert data_of(bench.heard["server/1"]) == [b"%d" % number for number in range(50)]
    assert {event.link for event in bench.heard["server/1"]} == {"client/1"}
    for number in range(50):
        network.transmit(server, "client/1", b"%d" % number)
    bench.run()
    assert bench.heard["client/1"] == [FrameArrived("server", b"%d" % number) for number in range(50)]


def test_a_break_loses_what_is_on_its_way_in_both_directions():
    bench, network, server, client = pair()
    bench.run()
    network.transmit(client, "server", b"up")
    network.transmit(server, "client/1", b"down")
    network.cut(network.connections[0], 0.1)
    network.transmit(client, "server", b"kept")
    network.transmit(server, "client/1", b"dropped")
    bench.run()
    assert data_of(bench.heard["server/1"]) == [b"kept"]
    assert bench.heard["client/1"] == []


def test_a_restarted_acceptor_gets_what_was_said_to_its_predecessor():
    bench, network, server, client = pair()
    bench.run()
    server.die()
    network.remove(server)
    network.transmit(client, "server", b"old session")
    network.bind(bench.process("server", Role.SCHEDULER, epoch=2))
    bench.run()
    assert data_of(bench.heard["server/2"]) == [b"old session"]


def test_a_full_direction_loses_the_frame_and_tells_the_sender():
    bench, network, server, client = pair(max_unread=3)
    bench.run()
    server.stop()
    for number in range(5):
        network.transmit(client, "server", b"%d" % number)
    bench.run()
    assert bench.heard["client/1"] == [LinkFull("server")] * 2
    server.go_on()
    assert data_of(bench.heard["server/1"]) == [b"0", b"1", b"2"]


def test_faults_lose_and_double_single_frames():
    bench, network, _, client = pair()
    bench.run()
    network.connections[0].up.num_to_lose = 1
    network.transmit(client, "server", b"lost")
    network.connections[0].up.num_to_double = 1
    network.transmit(client, "server", b"twice")
    network.transmit(client, "server", b"once")
    bench.run()
    assert data_of(bench.heard["server/1"]) == [b"twice", b"twice", b"once"]


def test_a_closed_socket_hears_nothing_any_more():
    bench, network, server, client = pair()
    bench.run()
    network.transmit(server, "client/1", b"late")
    network.close(client, "server")
    bench.run()
    assert bench.heard["client/1"] == []
    assert network.connections == []
