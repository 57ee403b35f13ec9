"""ALS-01 and ALS-09: clients that read slowly or leave cost others nothing, and no metric goes wrong."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from tests.conformance.live import HANG_LIMIT_S, left_as_found, resident_bytes, running, samples
from tests.processes.test_clients import leave_after
from tests.support.completions import Question, random_question
from tests.support.load import Load
from tests.support.raw_http import asked_and_not_read
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

STALL_TIMEOUT_S = 1.0
LONG = Question(tuple(range(20)), 1400, 9, 16)  #: six megabytes of events, more than the sockets of one stream hold
GROWTH_BYTES = 32 << 20
NEVER_FALLING = ("_total", "_bucket", "_count", "_sum")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    blocks = ("--num-blocks", "4096", "--num-slots", "64")
    router = ("--stall-timeout-s", str(STALL_TIMEOUT_S))
    async with running(tmp_path_factory.mktemp("clients"), prefill=blocks, decode=blocks, router=router) as stack:
        yield stack


@contextmanager
def slow_reader(stack: Stack) -> Iterator[socket.socket]:
    """A connection with a small buffer that has asked for a long stream."""
    with asked_and_not_read(stack.http_port, "/v1/completions", LONG.body()) as raw:
        yield raw


async def read_slowly(raw: socket.socket) -> None:
    """One byte at a time, for ever."""
    while await asyncio.get_running_loop().sock_recv(raw, 1):
        await asyncio.sleep(0.2)


async def read_to_the_end(raw: socket.socket) -> int:
    """How many bytes the other end still got across."""
    count = 0
    while data := await asyncio.get_running_loop().sock_recv(raw, 1 << 16):
        count += len(data)
    return count


async def test_als_01_a_slow_reader_is_cut_off_at_bounded_memory_and_others_go_on(shared: Stack) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        before = resident_bytes(stack, "router")
        with slow_reader(stack) as raw:
            reading = asyncio.ensure_future(read_slowly(raw))
            load = Load(stack, num_clients=2)
            most = before
            while "code=stalled" not in stack.log("router"):
                most = max(most, resident_bytes(stack, "router"))
                await asyncio.sleep(0.05)
            await load.good_answers(10)
            await load.stop()
            reading.cancel()
            with pytest.raises(ConnectionResetError):
                await read_to_the_end(raw)
        assert load.failures == {}
        assert most - before < GROWTH_BYTES


async def test_als_09_no_counter_falls_and_no_gauge_is_negative_while_clients_leave(shared: Stack) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        rng = random.Random(11)
        seen = {name: await samples(stack, name) for name in stack.running}
        for _ in range(6):
            questions = [random_question(rng, 300, 200) for _ in range(12)]
            leaving = asyncio.gather(*(leave_after(stack, question, rng.randrange(8)) for question in questions))
            while not leaving.done():
                await check_metrics(stack, seen)
            await leaving
        await stack.quiescent()
        await check_metrics(stack, seen)
        gone = [value for key, value in seen["router"].items() if key[0] == "baton_ended_aborted_total"]
        assert gone != []
        assert gone[0] > 0


async def check_metrics(stack: Stack, seen: dict[str, dict[tuple[str, ...], float]]) -> None:
    """Against the last ones, which are replaced."""
    for name, before in seen.items():
        now = await samples(stack, name)
        assert {key: value for key, value in now.items() if value < 0} == {}, name
        lasting = {key for key in before if key[0].endswith(NEVER_FALLING)}
        assert {key: (before[key], now.get(key)) for key in lasting if now.get(key, -1.0) < before[key]} == {}, name
        seen[name] = now
