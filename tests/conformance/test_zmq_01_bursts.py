"""ZMQ-01: thousands of requests that are there at once lose no token, and no link drops a frame."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from tests.conformance.live import HANG_LIMIT_S, left_as_found, running
from tests.support.completions import ask, check_answer, random_question
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

NUM_REQUESTS = 2000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("bursts")) as stack:
        yield stack


async def test_zmq_01_two_thousand_requests_at_once_lose_no_token(shared: Stack) -> None:
    rng = random.Random(6)
    questions = [random_question(rng, 12, 3) for _ in range(NUM_REQUESTS)]
    patient = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=4 * HANG_LIMIT_S))
    async with left_as_found(shared) as stack, patient as session:
        answers = await asyncio.gather(*(ask(session, stack.url, question) for question in questions))
        for question, answer in zip(questions, answers, strict=True):
            check_answer(question, answer)
        for name in stack.running:
            gauges = await stack.gauges(name)
            assert (gauges["links_full_total"], gauges["links_unroutable_total"]) == (0, 0), name
