"""Whole runs over worker processes: every planned request is told once, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from baton.core.metrics.facts import Failure, Phase, RequestFacts
from baton.services.loadgen.plan import Plan, PlannedRequest
from baton.services.loadgen.run import Run, RunFailed, RunOptions, RunOutcome
from baton.services.loadgen.run_records import Records
from baton.services.loadgen.server_metrics import Sample
from baton.services.loadgen.target import Target
from tests.support.stub_server import (
    STREAM_HEAD,
    Asked,
    Step,
    StubServer,
    Until,
    Wait,
    chat_event,
    chunked,
    good_stream,
    streamed,
    whole,
)

GOOD = streamed(good_stream())
MAKER = "tests.support.loadgen_bodies:plain"


def plan_of(count: int, num_warm_up: int = 0, concurrency: int = 0, **fields: Any) -> Plan:
    phases = [Phase.WARM_UP] * num_warm_up + [Phase.MEASURED] * (count - num_warm_up)
    requests = [PlannedRequest(index=index, phase=phase, max_tokens=2, **fields) for index, phase in enumerate(phases)]
    return Plan(requests=tuple(requests), seed=0, concurrency=concurrency)


class Finished:
    """A run's outcome with all that it told."""

    def __init__(self, outcome: RunOutcome, told: list[RequestFacts], samples: list[Sample]) -> None:
        self.outcome = outcome
        self.told = told
        self.samples = samples

    def kinds(self) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for facts in self.told:
            kind = facts.failure or ("cancelled" if facts.is_cancelled else "done")
            kinds[kind] = kinds.get(kind, 0) + 1
        return kinds


async def run(
    server: StubServer,
    plan: Plan,
    meanwhile: Callable[[Run], Awaitable[None]] | None = None,
    records: Records | None = None,
    **options: Any,
) -> Finished:
    told: list[RequestFacts] = []
    samples: list[Sample] = []
    chosen = RunOptions(**{"maker": MAKER, "num_workers": 2, **options})
    made = Run(plan, Target(url=server.url, model="m"), chosen, told.extend, records, samples.append)
    other = asyncio.ensure_future(meanwhile(made)) if meanwhile is not None else None
    async with asyncio.timeout(100):
        outcome = await made.run()
        if other is not None:
            await other
    assert sorted(facts.index for facts in told) == list(range(len(plan.requests)))
    return Finished(outcome, told, samples)


async def open_at(server: StubServer, num_open: int) -> None:
    async with server.opened:
        await server.opened.wait_for(lambda: server.num_open == num_open)


async def test_a_run_goes_through_its_phases_and_writes_each_request_down(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.jsonl")

    def answer(asked: Asked) -> Iterable[Step]:
        return [whole("200 OK", b"baton_queued 4\n", "text/plain")] if asked.method == "GET" else GOOD

    async with StubServer(answer) as server:
        urls = (f"{server.url}/metrics",)
        done = await run(server, plan_of(30, 10, concurrency=4), None, records, metrics_urls=urls)
        users = [asked.body["user"] for asked in server.asked if asked.method == "POST"]
    assert done.kinds() == {"done": 30}
    assert sorted(map(int, users[:10])) == list(range(10))
    assert {facts.worker for facts in done.told} == {0, 1}
    outcome = done.outcome
    assert (outcome.was_interrupted, outcome.broken, outcome.records_failure) == (False, "", "")
    warm_up_ends = [facts.done_s or inf for facts in done.told if facts.phase is Phase.WARM_UP]
    measured_begins = [facts.sent_s or 0.0 for facts in done.told if facts.phase is Phase.MEASURED]
    assert (len(warm_up_ends), len(measured_begins)) == (10, 20)
    assert max(warm_up_ends) <= min(measured_begins)
    assert done.samples[0].num_queued == 4
    assert msgspec.json.Decoder(RequestFacts).decode_lines(records.path.read_bytes()) == done.told


async def test_LDG_04_a_run_of_300_open_requests_has_300_open_at_the_server() -> None:
    all_there = asyncio.Event()
    async with StubServer(lambda asked: [Until(all_there), *GOOD]) as server:

        async def release(made: Run) -> None:
            await open_at(server, 300)
            all_there.set()

        done = await run(server, plan_of(400, concurrency=300), release)
        assert server.most_open == 300
    assert done.kinds() == {"done": 400}


async def test_LDG_04_an_interrupted_run_tells_what_is_done_cancelled_and_unsent(tmp_path: Path) -> None:
    never = asyncio.Event()
    records = Records(tmp_path / "r.jsonl")

    def answer(asked: Asked) -> Iterable[Step]:
        return GOOD if len(server.asked) <= 10 else [Until(never)]

    async with StubServer(answer) as server:

        async def interrupt(made: Run) -> None:
            async with server.opened:
                await server.opened.wait_for(lambda: len(server.asked) == 14 and server.num_open == 4)
            made.interrupt()

        done = await run(server, plan_of(40, concurrency=4), interrupt, records)
    assert done.kinds() == {"done": 10, "cancelled": 4, Failure.UNSENT: 26}
    assert done.outcome.was_interrupted
    assert len(records.path.read_bytes().splitlines()) == 40


async def test_a_run_that_is_interrupted_twice_waits_for_no_worker() -> None:
    """Not even for one that is started afterwards and never answers."""
    told: list[RequestFacts] = []
    options = RunOptions(maker="signal:pause", num_workers=1)
    made = Run(plan_of(3), Target(url="http://127.0.0.1:9", model="m"), options, told.extend)
    made.interrupt()
    made.interrupt()
    outcome = await made.run()
    assert (outcome.was_interrupted, outcome.broken) == (True, "")
    assert [facts.failure for facts in told] == [Failure.UNSENT] * 3


async def test_a_measured_phase_ends_when_its_time_is_over() -> None:
    never = asyncio.Event()
    async with StubServer(lambda asked: [Until(never)]) as server:
        done = await run(server, plan_of(3, concurrency=1), max_measured_s=0.3, num_workers=1)
    assert done.kinds() == {"cancelled": 1, Failure.UNSENT: 2}
    assert not done.outcome.was_interrupted
    assert {facts.detail for facts in done.told} == {"the run's 0.3 s were over"}


async def test_a_worker_that_dies_stops_the_run_and_its_requests_are_told() -> None:
    never = asyncio.Event()
    async with StubServer(lambda asked: [Until(never)]) as server:

        async def kill(made: Run) -> None:
            await open_at(server, 4)
            process = made._workers[1]._process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)

        done = await run(server, plan_of(20, concurrency=4), kill)
    assert done.outcome.broken == "worker 1 ended by itself, with exit code -9"
    lost = [facts for facts in done.told if "worker 1 ended by itself" in facts.detail and facts.sent_s is None]
    assert {facts.index for facts in lost} >= set(range(1, 20, 2))
    assert done.kinds() == {"cancelled": 2, Failure.UNSENT: 18}


async def test_a_full_disk_costs_the_records_and_not_the_run() -> None:
    async with StubServer(lambda asked: GOOD) as server:
        done = await run(server, plan_of(10, concurrency=2), None, Records(Path("/dev/full")))
    assert done.kinds() == {"done": 10}
    assert "No space left on device" in done.outcome.records_failure


INTERRUPTIBLE = """
import sys
from baton.services.loadgen.plan import Plan, PlannedRequest
from baton.services.loadgen.run import Run, RunOptions, run_to_end
from baton.services.loadgen.target import Target
requests = tuple(PlannedRequest(index=index, max_tokens=1) for index in range(6))
options = RunOptions(maker="tests.support.loadgen_bodies:plain")
plan, target, told = Plan(requests=requests, seed=0, concurrency=2), Target(url=sys.argv[1], model="m"), []
outcome = run_to_end(lambda: Run(plan, target, options, told.extend))
kinds = [facts.failure or facts.is_cancelled for facts in told]
print(outcome.was_interrupted, kinds.count(True), kinds.count("unsent"))
"""


async def test_a_ctrl_c_ends_a_run_in_order_and_a_worker_ends_with_its_run() -> None:
    def for_ever(asked: Asked) -> Iterable[Step]:
        yield STREAM_HEAD
        while True:
            yield Wait(0.01)
            yield chunked(chat_event("a"))

    for number, expected in ((signal.SIGINT, b"True 2 4\n"), (signal.SIGKILL, b"")):
        async with StubServer(for_ever) as server:
            command = (sys.executable, "-c", INTERRUPTIBLE, server.url)
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            await open_at(server, 2)
            process.send_signal(number)
            output, _ = await process.communicate()
            assert output == expected
            async with asyncio.timeout(200):
                await open_at(server, 0)  # no connection is left


async def test_a_body_that_cannot_be_made_ends_the_run_and_is_said() -> None:
    requests = tuple(PlannedRequest(index=index, max_tokens=2, is_next_message=index > 0) for index in range(6))
    plan = Plan(requests=requests, seed=0, concurrency=1)
    async with StubServer(lambda asked: GOOD) as server:
        done = await run(server, plan, num_workers=1, maker_settings={"broken_from": 3})
    assert done.outcome.broken == "BadLoad: request 3 cannot be said"
    assert done.kinds() == {"done": 3, Failure.UNSENT: 3}


async def test_a_run_that_cannot_begin_says_why_and_sends_nothing() -> None:
    async with StubServer(lambda asked: GOOD) as server:
        with pytest.raises(RunFailed, match=r"No module named 'tests\.support\.nothing'"):
            await run(server, plan_of(4), maker="tests.support.nothing:plain")
        assert server.asked == []
