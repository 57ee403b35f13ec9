"""SEC-01, SEC-02 and ZMQ-04 on real processes: whatever bytes reach whichever port, with a key of the deployment or
without, nothing runs, nobody registers, and everyone goes on."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio
import zmq

from baton.core.ids import Peer, Role
from baton.core.wire import frames as f
from baton.core.wire import messages as m
from baton.core.wire.codec import encode_message, encode_peer
from baton.services.transport.keys import KeyRing, make_keys
from tests.conformance.live import HANG_LIMIT_S, check_alive, left_as_found, listeners, resident_bytes, running
from tests.support.loops import until
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOPBACK = {"0100007F", "00000000000000000000000001000000"}  #: as the kernel writes 127.0.0.1 and ::1
BOUND = ("scheduler", "prefill", "decode")  #: whom others dial
GROWTH_BYTES = 64 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("ports")) as stack:
        yield stack


# ---- what is sent


def marking_pickle(marker: Path) -> bytes:
    """Bytes that create the file in whoever loads them as a pickle."""
    return f"cbuiltins\nopen\n(V{marker}\nVw\ntR.".encode()


def ext_types() -> list[bytes]:
    """One extension value of every MessagePack form and of every application type, bare and inside an array."""
    fixed = [bytes([0xD4 + power, code]) + bytes(1 << power) for power in range(5) for code in (0, 1, 127, 255)]
    sized = [bytes([0xC7, 3, code]) + b"abc" for code in range(256)]
    sized += [b"\xc8\x00\x03\x05abc", b"\xc9\x00\x00\x00\x03\x05abc", b"\xc9\xff\xff\xff\xff\x05abc"]
    return [*fixed, *sized, *(b"\x94\x04\x01\x02" + value for value in fixed)]


def junk(marker: Path) -> list[bytes]:
    return [
        b"",
        b"\x00",
        b"\xc1",
        b"\x91" * 100_000,
        b"\x82\xa1a\x01\xa1b\x02",
        b"\x96\x01" + b"\xc3" * 5,
        random.Random(7).randbytes(1 << 20),
        b"GET / HTTP/1.0\r\n\r\n",
        marking_pickle(marker),
        *ext_types(),
    ]


def pour(port: int, pieces: list[bytes]) -> None:
    """Each piece over a connection of its own; the other end may close it at any time."""
    for piece in pieces:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
                raw.sendall(piece)
        except OSError:
            continue


@contextmanager
def dealer(address: str, identity: bytes, ring: KeyRing | None, server_key: bytes = b"") -> Iterator[zmq.Socket[bytes]]:
    """A ZeroMQ client; without a ring it offers no key."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as client:
        client.linger = 0
        client.setsockopt(zmq.IDENTITY, identity)
        if ring is not None:
            client.curve_serverkey = server_key
            client.curve_publickey, client.curve_secretkey = ring.public, ring.secret
        client.connect(address)
        yield client


def offer(client: zmq.Socket[bytes], data: bytes) -> None:
    """Say it, unless the other end has turned this one away already."""
    try:
        client.send(data, zmq.NOBLOCK)
    except zmq.Again:
        return


async def answer(client: zmq.Socket[bytes]) -> f.AnyFrame:
    await until(lambda: bool(client.poll(0)))
    return f.decode_frame(client.recv())


def hello(peer: Peer) -> bytes:
    return f.encode_frame(f.Hello(f.PROTOCOL_VERSION, (peer.epoch << 20) | 1, encode_peer(peer)))


async def told(stack: Stack, name: str, counter: str) -> float:
    return (await stack.gauges(name))[counter]


async def until_told(stack: Stack, name: str, counter: str, least: float) -> None:
    while await told(stack, name, counter) < least:
        await asyncio.sleep(0.02)


# ---- tests


async def test_sec_01_the_pickle_that_is_sent_would_leave_its_marker(tmp_path: Path) -> None:
    load = "import sys, pickle; pickle.loads(sys.stdin.buffer.read())"
    subprocess.run([sys.executable, "-c", load], input=marking_pickle(tmp_path / "marker"), check=True)
    assert (tmp_path / "marker").exists()


async def test_sec_02_every_process_listens_on_loopback_alone(shared: Stack) -> None:
    found = listeners(shared)
    assert {one.address for one in found} <= LOOPBACK
    assert {one.process for one in found} == set(shared.running)


async def test_zmq_04_sec_01_foreign_bytes_on_every_port_run_nothing_and_stop_nobody(
    shared: Stack, tmp_path: Path
) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        pieces = junk(tmp_path / "marker")
        memory = {name: resident_bytes(stack, name) for name in stack.running}
        ports = sorted({one.port for one in listeners(stack)})
        await asyncio.gather(*(asyncio.to_thread(pour, port, pieces) for port in ports))
        await check_alive(stack)
        assert os.listdir(tmp_path) == []
        for name, before in memory.items():
            assert resident_bytes(stack, name) - before < GROWTH_BYTES, name


@pytest.mark.parametrize("name", BOUND)
async def test_zmq_04_sec_01_bad_frames_of_a_keyed_process_are_counted_and_stop_nobody(
    shared: Stack, tmp_path: Path, name: str
) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        ring = a_further_key(stack, "stranger")
        address = (await stack.record(name)).address
        pieces = junk(tmp_path / "marker")
        shapes = [[piece] for piece in pieces] + [[b"", b""], [b"a", b"b", b"c"]]

        async def num_frames() -> float:
            return await told(stack, name, "frames_received_total") + await told(stack, name, "frames_refused_total")

        before = await num_frames()
        with dealer(address, b"stranger/1", ring, ring.public_key_of(name)) as client:
            for frames in shapes:
                client.send_multipart(frames)
            while await num_frames() < before + len(shapes):
                await asyncio.sleep(0.02)
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", BOUND)
async def test_sec_02_without_a_key_of_the_deployment_nobody_is_heard(shared: Stack, tmp_path: Path, name: str) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        record = await stack.record(name)
        make_keys(tmp_path / "foreign", [name, "decode"])
        ring = KeyRing(tmp_path / "foreign", "decode")
        server_key = a_further_key(stack, "stranger").public_key_of(name)
        heard = await told(stack, name, "frames_refused_total")
        refused = await told(stack, name, "connections_refused_total")
        forged = hello(Peer("decode", Role.DECODE, 1 << 43, "tcp://127.0.0.1:1"))
        with (
            dealer(record.address, b"decode/1", None) as keyless,
            dealer(record.address, b"decode/2", ring, server_key) as liar,
        ):
            offer(keyless, forged)
            offer(liar, forged)
            await until_told(stack, name, "connections_refused_total", refused + 1)
            assert not keyless.poll(0)
            assert not liar.poll(0)
        assert await told(stack, name, "frames_refused_total") == heard


async def test_sec_02_a_key_registers_no_other_name(shared: Stack) -> None:
    """Neither as its connection's name nor as the name in its Hello."""
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        ring = a_further_key(stack, "stranger")
        for name, forged in (
            ("scheduler", Peer("decode", Role.DECODE, 1 << 43, "tcp://127.0.0.1:1")),
            ("scheduler", Peer("router", Role.ROUTER, 1 << 43)),
            ("decode", Peer("prefill", Role.PREFILL, 1 << 43)),
            ("prefill", Peer("scheduler", Role.SCHEDULER, 1 << 43)),
        ):
            address, server_key = (await stack.record(name)).address, ring.public_key_of(name)
            refused = await told(stack, name, "frames_refused_total")
            with dealer(address, f"{forged.name}/{forged.epoch}".encode(), ring, server_key) as impostor:
                impostor.send(hello(forged))
                await until_told(stack, name, "frames_refused_total", refused + 1)
                assert not impostor.poll(0)
            with dealer(address, b"stranger/1", ring, server_key) as impostor:
                impostor.send(hello(forged))
                assert isinstance(await answer(impostor), f.Reject), (name, forged)


async def test_sec_02_words_without_a_session_change_nothing(shared: Stack) -> None:
    """A transfer's end, as a writer would say it, from a process that has no session there."""
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        ring = a_further_key(stack, "stranger")
        address = (await stack.record("decode")).address
        with dealer(address, b"stranger/2", ring, ring.public_key_of("decode")) as client:
            for message in (m.ChunkLanded(1, 0), m.TransferClosed(1, None), m.TransportProven()):
                client.send(f.encode_frame(f.Data(7, 0, (encode_message(message),))))
                assert isinstance(await answer(client), f.Reset)


def a_further_key(stack: Stack, name: str) -> KeyRing:
    """Of a process that belongs to the deployment and was not started."""
    make_keys(stack.folder / "keys", [name])
    return KeyRing(stack.folder / "keys", name)
