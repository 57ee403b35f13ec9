"""A worker process by itself."""

from __future__ import annotations

import asyncio
import time

from baton.core.metrics.facts import Phase
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.run_worker import WorkerProcess
from baton.services.loadgen.target import Target
from baton.services.loadgen.worker_messages import Begin


async def test_what_goes_wrong_with_a_request_that_is_due_at_the_start_is_told_too() -> None:
    begin = Begin(
        target=Target(url="http://127.0.0.1:9", model="m"),
        requests=(PlannedRequest(index=0, max_tokens=1, is_next_message=True),),  # whose body is not made before
        worker=0,
        num_workers=1,
        concurrency=1,
        ramp_s=0.0,
        origin_s=time.monotonic(),
        maker="tests.support.loadgen_bodies:plain",
        maker_settings={"broken_from": 0},
    )
    worker = WorkerProcess(begin, lambda facts: None, lambda: None)
    async with asyncio.timeout(200):
        await worker.start()
        await worker.prepared()
        assert worker.broken == ""
        worker.start_phase(Phase.MEASURED, 0.0)
        await worker.phase_over(Phase.MEASURED)
        worker.stop("")
        await worker.ended(10.0)
    assert worker.broken == "BadLoad: request 0 cannot be said"
