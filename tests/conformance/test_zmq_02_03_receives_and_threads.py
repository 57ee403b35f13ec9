"""ZMQ-02 and ZMQ-03: no receive can be cancelled with a message in it, and no socket is used by two threads."""

from __future__ import annotations

import ast
import asyncio
import threading
import zlib
from pathlib import Path

import pytest

from baton.core.ids import Role
from baton.core.session.machine import LinkTiming
from baton.services.transport.keys import make_keys
from tests.conformance.source_scan import calls, imports, modules
from tests.services.transport.chatter import Process, Say
from tests.support.loops import run_on_uvloop, until

NUM_MESSAGES = 10_000
NUM_THREADS = 8
NUM_PER_THREAD = 500
HASTY = LinkTiming(heartbeat_s=0.001, silence_s=20.0)  #: a heartbeat falls between almost all messages
ANY_PORT = "tcp://127.0.0.1:*"

#: the calls that may bound or end a wait
CANCELLING = ("wait_for", "asyncio.timeout", "asyncio.timeout_at", "shield")


def test_zmq_02_nothing_awaits_a_receive_so_none_can_be_cancelled() -> None:
    """The library's asynchronous sockets are not used, and plain ones are read in one place, without waiting. Other
    sockets (of a group's ranks, on a thread of their own) are no matter of its."""
    reading = set()
    for path, tree in modules():
        imported = list(imports(tree))
        assert not [name for name in imported if name.startswith(("zmq.asyncio", "zmq.green"))], path
        if "zmq" not in imported:
            reads = [name for name, _ in calls(tree) if name.endswith((".recv", ".recv_multipart"))]
            assert "socket" in imported or not reads, path
            continue
        for name, call in calls(tree):
            method = name.rpartition(".")[2]
            if method in ("recv", "recv_multipart", "recv_into", "recv_string", "recv_json"):
                reading.add(path)
                assert [ast.unparse(argument) for argument in call.args] == ["_NOBLOCK"], f"{path}: {name}"
            if method == "poll" and "socket" in name:
                reading.add(path)
    assert reading == {"services/transport/reader.py"}


def test_zmq_02_no_wait_with_a_limit_is_around_a_socket() -> None:
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and any(ast.unparse(node.func).endswith(name) for name in CANCELLING):
                waited = " ".join(ast.unparse(argument) for argument in node.args)
                assert "recv" not in waited, f"{path}: {waited}"
            if isinstance(node, ast.AsyncWith) and "timeout" in ast.unparse(node.items[0].context_expr):
                assert ".recv" not in ast.unparse(node), path


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", ["scheduler", "router"])
    return tmp_path / "keys"


def test_zmq_02_heartbeats_between_all_messages_cost_none_of_them(keys: Path) -> None:
    async def story() -> None:
        there = Process(keys, "scheduler", 1, Role.SCHEDULER, timing=HASTY)
        here = Process(keys, "router", 1, Role.ROUTER, timing=HASTY)
        here.dial("scheduler", there.links.bind(ANY_PORT))
        await until(lambda: bool(here.machine.ups))
        for start in range(0, NUM_MESSAGES, 50):  # bursts with pauses: the reader sleeps and is woken again
            for number in range(start, start + 50):  # what is said in one turn is one frame
                here.driver.post(Say("scheduler", [number]))
            await until(lambda start=start: len(here.machine.heard) > start - 500)
        await until(lambda: len(here.machine.heard) == NUM_MESSAGES)
        assert there.machine.heard == here.machine.heard == list(range(NUM_MESSAGES))
        assert here.machine.downs == there.machine.downs == []
        here.shut()
        there.shut()

    run_on_uvloop(story())


def marked(thread: int, number: int) -> int:
    """A number that carries its own checksum, its thread and its place."""
    plain = thread << 20 | number
    return plain << 32 | zlib.crc32(plain.to_bytes(4, "big"))


def test_zmq_03_eight_threads_that_post_at_once_lose_and_mix_nothing(keys: Path) -> None:
    """Threads never touch a socket: they post, and the loop that owns the socket sends."""

    async def story() -> None:
        there = Process(keys, "scheduler", 1, Role.SCHEDULER)
        here = Process(keys, "router", 1, Role.ROUTER)
        here.dial("scheduler", there.links.bind(ANY_PORT))
        await until(lambda: bool(here.machine.ups))

        loop = asyncio.get_running_loop()

        def talk(thread: int) -> None:
            for number in range(NUM_PER_THREAD):
                loop.call_soon_threadsafe(here.driver.post, Say("scheduler", [marked(thread, number)]))

        threads = [threading.Thread(target=talk, args=(index,)) for index in range(NUM_THREADS)]
        for thread in threads:
            thread.start()
        await until(lambda: len(here.machine.heard) == NUM_THREADS * NUM_PER_THREAD)
        for thread in threads:
            thread.join()
        for index in range(NUM_THREADS):
            expected = [marked(index, number) for number in range(NUM_PER_THREAD)]
            mine = [number for number in there.machine.heard if number >> 52 == index]
            assert mine == expected
        assert sorted(there.machine.heard) == sorted(here.machine.heard)
        here.shut()
        there.shut()

    run_on_uvloop(story())


def test_zmq_03_only_the_owning_thread_may_touch_a_link(keys: Path) -> None:
    async def story() -> None:
        here = Process(keys, "router", 1, Role.ROUTER)
        uses = (
            lambda: here.links.open(None),  # type: ignore[arg-type]
            lambda: here.links.close(None),  # type: ignore[arg-type]
            lambda: here.links.transmit(None),  # type: ignore[arg-type]
            lambda: here.links.bind(ANY_PORT),
            here.links.shut,
        )
        for use in uses:
            with pytest.raises(Exception, match="thread that does not own it"):
                await asyncio.to_thread(use)
        here.shut()

    run_on_uvloop(story())
