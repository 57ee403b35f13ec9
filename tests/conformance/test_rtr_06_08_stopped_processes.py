"""RTR-06 and RTR-08: bad requests close nothing, and a process that stands still shows in `/ready` and only there."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import ClientError, ClientTimeout

from tests.conformance.live import HANG_LIMIT_S, check_alive, check_nothing_held, left_as_found, running
from tests.support.completions import Question, ask, check_answer, random_question
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

BOUND_S = 1.0 + 0.2  #: the stack's `silence_s` and `heartbeat_s`: a stopped process is noticed within their sum
HANG_FACTOR = 10  #: a busy machine is no failure


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("stopped"), is_patient=False) as stack:
        yield stack


async def ready_turns(stack: Stack, status: int) -> None:
    """Wait for the router's `/ready`."""
    async with asyncio.timeout(HANG_FACTOR * BOUND_S):
        while (await stack.get(stack.http_port, "/ready"))[0] != status:
            await asyncio.sleep(0.02)


async def test_rtr_06_requests_beyond_the_context_count_against_nobody(shared: Stack) -> None:
    async with left_as_found(shared) as stack:
        too_long = Question(tuple(range(64)) * 20, 5, 1)
        for _ in range(20):
            answer = await ask(stack.session, stack.url, too_long)
            assert (answer.status, answer.error) == (400, "context_length_exceeded")
        good = random_question(random.Random(2))
        check_answer(good, await ask(stack.session, stack.url, good))


async def test_rtr_06_a_prefill_executor_that_stood_still_serves_again_without_a_restart(shared: Stack) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        stack.signal("prefill", signal.SIGSTOP)
        body = random_question(random.Random(3)).body() | {"timeout": 0.5}
        for _ in range(4):
            async with stack.session.post(f"{stack.url}/v1/completions", json=body) as response:
                assert (response.status, (await response.json())["error"]["code"]) == (504, "deadline")
        while (await stack.gauges("decode"))["attempts"]:  # none of them goes on at the other executor
            await asyncio.sleep(0.02)
        assert (await stack.gauges("decode"))["sequences_running"] == 0
        stack.signal("prefill", signal.SIGCONT)
        await stack.ready()
        rng = random.Random(4)
        for question in [random_question(rng) for _ in range(10)]:
            check_answer(question, await ask(stack.session, stack.url, question))


@pytest.mark.parametrize("name", ["decode", "prefill", "scheduler"])
async def test_rtr_08_ready_is_503_while_a_process_stands_still_and_its_health_does_not_answer(
    shared: Stack, name: str
) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), left_as_found(shared) as stack:
        port = (await stack.record(name)).admin_port
        assert (await stack.get(port, "/health"))[0] == 200
        stack.signal(name, signal.SIGSTOP)
        await ready_turns(stack, 503)
        assert (await stack.get(stack.http_port, "/health"))[0] == 200  # the router lives: liveness is another question
        with pytest.raises(TimeoutError):
            await stack.session.get(f"http://127.0.0.1:{port}/health", timeout=ClientTimeout(total=0.2))
        stack.signal(name, signal.SIGCONT)
        await ready_turns(stack, 200)
        assert (await stack.get(port, "/health"))[0] == 200


@pytest.mark.parametrize("name", ["decode", "prefill", "scheduler"])
async def test_rtr_08_ready_is_503_while_a_process_is_gone(shared: Stack, name: str) -> None:
    async with asyncio.timeout(HANG_LIMIT_S):
        port = (await shared.record(name)).admin_port
        await shared.kill(name)
        await ready_turns(shared, 503)
        with pytest.raises(ClientError):
            await shared.get(port, "/health")
        shared.start(name)
        await shared.ready()
        await check_alive(shared)
        await check_nothing_held(shared)
