"""Real sockets under real sessions: everything arrives once and in order, or the session is reset and says so."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from baton.core.errors import InvariantViolated
from baton.core.ids import Role
from baton.core.session.machine import Transmit
from baton.core.wire.frames import Data, encode_frame
from baton.services.transport.endpoints import EndpointRefused
from baton.services.transport.keys import KeyRing, make_keys
from baton.services.transport.zmq_links import LinkLimits
from tests.services.transport.chatter import Process, Say
from tests.support.loops import run_on_uvloop, until

ANY_PORT = "tcp://127.0.0.1:*"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", ["scheduler", "router", "router2"])
    return tmp_path / "keys"


@contextmanager
def process(keys: Path, name: str, epoch: int, role: Role, limits: LinkLimits | None = None) -> Iterator[Process]:
    made = Process(keys, name, epoch, role, limits)
    try:
        yield made
    finally:
        made.shut()


def test_thousands_of_messages_arrive_once_and_in_order_both_ways(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "scheduler", 1, Role.SCHEDULER) as there, process(keys, "router", 1, Role.ROUTER) as here:
            here.dial("scheduler", there.links.bind(ANY_PORT))
            await until(lambda: bool(here.machine.ups))
            for start in range(0, 10_000, 500):
                for number in range(start, start + 500):  # what is said in one turn is one frame
                    here.driver.post(Say("scheduler", [number]))
                await asyncio.sleep(0)
            await until(lambda: len(here.machine.heard) == 10_000)
            assert there.machine.heard == here.machine.heard == list(range(10_000))
            assert here.machine.downs == there.machine.downs == []

    run_on_uvloop(story())


def test_zmq01_a_full_link_resets_its_session_and_the_next_one_works(keys: Path) -> None:
    async def story() -> None:
        few = LinkLimits(queued_frames=10)
        of_no_session = Transmit("scheduler", encode_frame(Data(0, 0, (bytes(1 << 16),))))
        with (
            process(keys, "scheduler", 1, Role.SCHEDULER, few) as there,
            process(keys, "router", 1, Role.ROUTER, few) as here,
        ):
            here.dial("scheduler", there.links.bind(ANY_PORT))
            await until(lambda: bool(here.machine.ups))
            while not here.links.counters.full:  # the loop is held, so nobody reads
                here.links.transmit(of_no_session)
            await until(lambda: bool(here.machine.downs))
            assert "full" in here.machine.downs[0]
            await until(lambda: len(here.machine.ups) > len(here.machine.downs))
            here.driver.post(Say("scheduler", [7, 8]))
            await until(lambda: here.machine.heard == [7, 8])
            assert there.machine.heard == [7, 8]
            assert here.links.counters.full == 1

    run_on_uvloop(story())


def test_a_link_that_was_full_before_the_peer_existed_comes_up_when_the_peer_does(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "router", 1, Role.ROUTER, LinkLimits(queued_frames=1)) as here:
            with process(keys, "scheduler", 1, Role.SCHEDULER) as there:
                address = there.links.bind(ANY_PORT)
            here.dial("scheduler", address)
            await until(lambda: here.links.counters.full > 0)
            with process(keys, "scheduler", 2, Role.SCHEDULER) as there:
                there.links.bind(address)
                await until(lambda: bool(here.machine.ups))
                assert here.machine.ups[0].epoch == 2

    run_on_uvloop(story())


def test_a_peer_that_restarts_is_met_again_under_its_new_epoch(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "router", 1, Role.ROUTER) as here:
            with process(keys, "scheduler", 1, Role.SCHEDULER) as first:
                address = first.links.bind(ANY_PORT)
                here.dial("scheduler", address)
                await until(lambda: bool(here.machine.ups))
            here.driver.post(Say("scheduler", range(50)))
            with process(keys, "scheduler", 2, Role.SCHEDULER) as second:
                second.links.bind(address)
                await until(lambda: len(here.machine.ups) == 2)
                here.driver.post(Say("scheduler", [1, 2, 3]))
                await until(lambda: here.machine.heard == [1, 2, 3])
                assert second.machine.heard == [1, 2, 3]
                assert [peer.epoch for peer in here.machine.ups] == [1, 2]

    run_on_uvloop(story())


def test_a_dialing_process_that_restarts_replaces_its_old_link(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "scheduler", 1, Role.SCHEDULER) as there:
            address = there.links.bind(ANY_PORT)
            for epoch in (1, 2, 3):
                with process(keys, "router", epoch, Role.ROUTER) as here:
                    here.dial("scheduler", address)
                    await until(lambda here=here: bool(here.machine.ups))
                    here.driver.post(Say("scheduler", [epoch]))
                    await until(lambda here=here, epoch=epoch: here.machine.heard == [epoch])
            assert [peer.epoch for peer in there.machine.ups] == [1, 2, 3]

    run_on_uvloop(story())


def test_sending_to_a_vanished_process_ends_its_session_at_once(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "scheduler", 1, Role.SCHEDULER) as there:
            with process(keys, "router", 1, Role.ROUTER) as here:
                here.dial("scheduler", there.links.bind(ANY_PORT))
                await until(lambda: bool(there.machine.ups))
            await until(lambda: bool(there.machine.downs))
            assert there.links.counters.unroutable >= 1
            assert there.links.counters.full == 0
            assert there.machine.downs == ["the peer is gone"]

    run_on_uvloop(story())


def test_sec02_without_a_key_of_the_deployment_nobody_gets_in(keys: Path, tmp_path: Path) -> None:
    async def story() -> None:
        make_keys(tmp_path / "other", ["scheduler", "router"])
        (tmp_path / "other" / "public" / "scheduler.key").write_bytes(KeyRing(keys, "scheduler").public)
        with (
            process(keys, "scheduler", 1, Role.SCHEDULER) as there,
            process(tmp_path / "other", "router", 1, Role.ROUTER) as stranger,
            process(keys, "router", 1, Role.ROUTER) as friend,
        ):
            address = there.links.bind(ANY_PORT)
            stranger.dial("scheduler", address)
            await until(lambda: there.links.num_refused_connections > 0)
            friend.dial("scheduler", address)
            await until(lambda: bool(friend.machine.ups))
            assert [peer.name for peer in there.machine.ups] == ["router"]
            assert stranger.machine.ups == []

    run_on_uvloop(story())


def test_sec02_a_key_does_not_speak_for_another_name(keys: Path) -> None:
    async def story() -> None:
        ring = KeyRing(keys, "router2")
        with process(keys, "scheduler", 1, Role.SCHEDULER) as there, process(keys, "router", 1, Role.ROUTER) as here:
            address = there.links.bind(ANY_PORT)
            here.dial("scheduler", address)
            await until(lambda: bool(here.machine.ups))
            with keyed_dealer(ring, address, b"router/9") as impostor:
                impostor.send(b"\x96anything")
                await until(lambda: there.links.counters.refused == 1)
            here.driver.post(Say("scheduler", [4]))
            await until(lambda: here.machine.heard == [4])

    run_on_uvloop(story())


@contextmanager
def keyed_dealer(ring: KeyRing, address: str, identity: bytes) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.setsockopt(zmq.IDENTITY, identity)
        socket.curve_serverkey = ring.public_key_of("scheduler")
        socket.curve_publickey, socket.curve_secretkey = ring.public, ring.secret
        socket.connect(address)
        yield socket


FOREIGN = [
    [b""],
    [b"", b""],
    [b"\xc1"],
    [b"\x91" * 100_000],
    [b"\x93\x01\x01"],
    [bytes(1 << 20)],
    [b"GET / HTTP/1.0\r\n"],
]


def test_zmq04_a_foreign_frame_is_counted_and_kills_nothing(keys: Path) -> None:
    async def story() -> None:
        ring = KeyRing(keys, "router2")
        with process(keys, "scheduler", 1, Role.SCHEDULER) as there, process(keys, "router", 1, Role.ROUTER) as here:
            address = there.links.bind(ANY_PORT)
            with keyed_dealer(ring, address, b"router2/1") as foreign, keyed_dealer(ring, address, b"\x01") as nameless:
                for frames in FOREIGN:
                    foreign.send_multipart(frames)
                nameless.send(b"x")
                await until(lambda: len(there.notes) + there.links.counters.refused >= len(FOREIGN) + 1)
            with socket_to(address) as raw:
                raw.sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(range(256)))
            here.dial("scheduler", address)
            await until(lambda: bool(here.machine.ups))
            here.driver.post(Say("scheduler", [1]))
            await until(lambda: here.machine.heard == [1])

    run_on_uvloop(story())


@contextmanager
def socket_to(address: str) -> Iterator[socket.socket]:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as raw:
        yield raw


def test_zmq05_a_port_in_use_is_refused_by_name(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "scheduler", 1, Role.SCHEDULER) as first, process(keys, "router", 1, Role.ROUTER) as second:
            address = first.links.bind(ANY_PORT)
            with pytest.raises(EndpointRefused, match=address):
                second.links.bind(address)

    run_on_uvloop(story())


BEYOND_LOOPBACK = ["tcp://0.0.0.0:*", "tcp://*:9", "tcp://[::]:9", "udp://127.0.0.1:9", "nonsense", "tcp://:9"]


@pytest.mark.parametrize("endpoint", BEYOND_LOOPBACK)
def test_sec02_only_loopback_is_bound_unless_asked_for(keys: Path, endpoint: str) -> None:
    async def story() -> None:
        with process(keys, "scheduler", 1, Role.SCHEDULER) as here, pytest.raises(EndpointRefused):
            here.links.bind(endpoint)

    run_on_uvloop(story())


@pytest.mark.parametrize("endpoint", ["tcp://[::1]:*", "ipc"])
def test_ipv6_and_ipc_work_as_well(keys: Path, tmp_path: Path, endpoint: str) -> None:
    async def story() -> None:
        with process(keys, "scheduler", 1, Role.SCHEDULER) as there, process(keys, "router", 1, Role.ROUTER) as here:
            here.dial("scheduler", there.links.bind(f"ipc://{tmp_path}/s" if endpoint == "ipc" else endpoint))
            await until(lambda: bool(here.machine.ups))

    run_on_uvloop(story())


def test_an_address_that_cannot_be_dialed_is_counted_and_kills_nothing(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "router", 1, Role.ROUTER) as here:
            for address in ("udp://x:1", "tcp://127.0.0.1:notaport", "", "ipc://"):
                here.dial("scheduler", address)
            await until(lambda: here.links.counters.unopened == 4)

    run_on_uvloop(story())


def test_zmq03_a_socket_refuses_other_threads(keys: Path) -> None:
    async def story() -> None:
        with process(keys, "router", 1, Role.ROUTER) as here:
            seen: list[type] = []

            def misuse() -> None:
                try:
                    here.links.transmit(Transmit("scheduler", b"x"))
                except InvariantViolated as error:
                    seen.append(type(error))

            thread = threading.Thread(target=misuse)
            thread.start()
            thread.join()
            assert seen == [InvariantViolated]

    run_on_uvloop(story())
