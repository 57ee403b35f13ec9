"""ALS-03: prefill executors that come and go under load, asked or killed, leave no request without its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.live import HANG_LIMIT_S, check_alive, check_nothing_held, running, tell
from tests.support.load import Load
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")
pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ("scheduler", "prefill0", "prefill1", "decode", "router")
NUM_CHANGES = 3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("churn"), NAMES) as stack:
        yield stack


async def test_als_03_prefill_executors_that_come_and_go_under_load_hang_no_request(shared: Stack) -> None:
    async with asyncio.timeout(2 * HANG_LIMIT_S):
        load = Load(shared, num_clients=3)
        for change in range(NUM_CHANGES):
            name = f"prefill{change % 2}"
            await load.good_answers(5)
            if change % 2 == 0:
                shared.running[name].terminate()
                assert await shared.exited(name) == 0, shared.log(name)
            else:
                await shared.kill(name)
            await load.good_answers(5)
            shared.start(name)
            await shared.record(name)
        await load.stop()
        tell(shared)
        assert load.failures == {}
        await check_alive(shared)
        await check_nothing_held(shared)
