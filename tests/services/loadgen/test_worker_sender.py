"""A worker's share, sent to a real socket: order, turns, bounds and a stop that tells every request once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from baton.core.metrics.facts import Failure, Phase, RequestFacts
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import Target
from baton.services.loadgen.worker_messages import Begin
from baton.services.loadgen.worker_sender import Sender
from tests.support.loadgen_bodies import plain
from tests.support.stub_server import Asked, Step, StubServer, Until, good_stream, streamed, whole

GOOD = streamed(good_stream())


def request(index: int, **fields: Any) -> PlannedRequest:
    return PlannedRequest(index=index, max_tokens=2, **fields)


@asynccontextmanager
async def sending(
    server: StubServer, requests: Sequence[PlannedRequest], told: list[RequestFacts], concurrency: int = 0
) -> AsyncIterator[Sender]:
    begin = Begin(
        target=Target(url=server.url, model="m"),
        requests=tuple(requests),
        worker=0,
        num_workers=1,
        concurrency=concurrency,
        ramp_s=0.0,
        origin_s=0.0,
        maker="",
        maker_settings={},
    )
    sender = Sender(begin, plain(), asyncio.get_running_loop().time, told.append)
    await sender.prepare()
    try:
        yield sender
    finally:
        await sender.close()


async def run_phase(sender: Sender, phase: Phase = Phase.MEASURED) -> None:
    sender.start(phase, asyncio.get_running_loop().time())
    async with asyncio.timeout(200):
        await sender.phase_over.wait()


async def test_a_chat_grows_by_its_real_answers() -> None:
    turns: list[PlannedRequest] = []
    for turn in range(3):
        after = turn - 1 if turn else None
        turns.append(request(turn, session="s", turn=turn, text=f"q{turn}", after=after, is_next_message=turn > 0))
    told: list[RequestFacts] = []

    def answer(asked: Asked) -> Iterable[Step]:
        return streamed(good_stream([f"answer {len(server.asked)}"]))

    async with StubServer(answer) as server, sending(server, turns, told) as sender:
        await run_phase(sender)
        said = [[message["content"] for message in asked.body["messages"]] for asked in server.asked]
    assert said == [["q0"], ["q0", "answer 1", "q1"], ["q0", "answer 1", "q1", "answer 2", "q2"]]
    assert [(facts.session, facts.turn, facts.failure) for facts in told] == [("s", turn, None) for turn in range(3)]
    for before, facts in itertools.pairwise(told):
        assert facts.scheduled_s == before.done_s


async def test_a_failed_turn_is_left_out_of_what_follows() -> None:
    turns = [
        request(0, session="s", turn=0, text="q0"),
        request(1, session="s", turn=1, text="q1", after=0, is_next_message=True),
    ]
    told: list[RequestFacts] = []

    def answer(asked: Asked) -> Iterable[Step]:
        return [whole("503 Busy", {})] if len(server.asked) == 1 else GOOD

    async with StubServer(answer) as server, sending(server, turns, told) as sender:
        await run_phase(sender)
        assert [message["content"] for message in server.asked[1].body["messages"]] == ["q1"]
    assert [facts.failure for facts in told] == [Failure.REFUSED, None]


async def test_a_bound_of_open_requests_is_reached_and_never_passed() -> None:
    told: list[RequestFacts] = []
    requests = [*map(request, range(40))]
    all_there = asyncio.Event()
    async with StubServer(lambda asked: [Until(all_there), *GOOD]) as server:
        async with sending(server, requests, told, concurrency=4) as sender:
            running = asyncio.create_task(run_phase(sender))
            async with server.opened:
                await server.opened.wait_for(lambda: server.num_open == 4)
            all_there.set()
            await running
        assert server.most_open == 4
        assert server.num_connections == 4
    assert sorted(facts.index for facts in told) == list(range(40))


async def test_phases_follow_one_another() -> None:
    told: list[RequestFacts] = []
    requests = [request(0), request(1, phase=Phase.WARM_UP), request(2, phase=Phase.WARM_UP)]
    async with StubServer(lambda asked: GOOD) as server, sending(server, requests, told, 1) as sender:
        await run_phase(sender, Phase.WARM_UP)
        assert [facts.index for facts in told] == [1, 2]
        await run_phase(sender)
    assert [(facts.index, facts.phase) for facts in told[2:]] == [(0, Phase.MEASURED)]


async def test_LDG_04_a_stop_tells_each_request_once_as_done_cancelled_or_unsent() -> None:
    never = asyncio.Event()
    told: list[RequestFacts] = []
    requests = [request(index, at_s=0.0 if index < 8 else 1e6) for index in range(12)]
    requests += [request(12, after=11), request(13, phase=Phase.WARM_UP)]

    def answer(asked: Asked) -> Iterable[Step]:
        return GOOD if len(server.asked) <= 5 else [Until(never)]

    async with StubServer(answer) as server, sending(server, requests, told) as sender:
        sender.start(Phase.MEASURED, asyncio.get_running_loop().time())
        async with server.opened:
            await server.opened.wait_for(lambda: len(server.asked) == 8)
        while len(told) < 5:
            await asyncio.sleep(0)
        sender.stop("the run was interrupted")
    assert sorted(facts.index for facts in told) == list(range(14))
    kinds = [facts.failure or ("cancelled" if facts.is_cancelled else "done") for facts in told]
    assert kinds == ["done"] * 5 + ["cancelled"] * 3 + [Failure.UNSENT] * 6
    assert {facts.detail for facts in told[5:]} == {"the run was interrupted"}
    assert all(facts.sent_s is None for facts in told[8:])
    assert all(facts.scheduled_s > 1e6 for facts in told[8:12])
