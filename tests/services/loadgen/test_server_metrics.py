"""Queue and KV memory out of what servers say of themselves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

import pytest

from baton.services.loadgen.server_metrics import MetricsSampler, Sample, read_metrics
from baton.services.loadgen.target import Target
from tests.support.loops import until
from tests.support.stub_server import Asked, Step, StubServer, whole

VLLM = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 3
vllm:num_requests_waiting{engine="1"} 4
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 2
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
"""


def test_engines_are_added_up_and_their_memory_is_averaged() -> None:
    assert read_metrics([VLLM], 1.5) == Sample(time_s=1.5, num_queued=7, num_running=2, kv_use=0.375)


def test_what_several_addresses_say_is_added_up() -> None:
    scheduler = "baton_queued 5\n"
    executors = [
        f"baton_sequences_running {number}\nbaton_blocks 100\nbaton_blocks_free {50 * number}\n" for number in (1, 2)
    ]
    assert read_metrics([scheduler, *executors], 2.0) == Sample(time_s=2.0, num_queued=5, num_running=3, kv_use=0.25)


def test_what_nobody_says_is_not_known() -> None:
    assert read_metrics(["other 1\n"], 0.0) == Sample(time_s=0.0)
    assert read_metrics(["vllm:kv_cache_usage_perc NaN\n"], 0.0) == Sample(time_s=0.0)


@pytest.mark.parametrize(("text", "cause"), [("<html>\n{", "html"), ('a{b="c", ="d"} 1\n', "no exposition")])
def test_what_is_no_exposition_is_one_kind_of_error(text: str, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        read_metrics([text], 0.0)


async def test_the_targets_metrics_are_asked_with_its_key_and_those_of_others_are_not() -> None:
    def answer(asked: Asked) -> Iterable[Step]:
        return [whole("200 OK", VLLM.encode(), "text/plain")]

    samples: asyncio.Queue[Sample] = asyncio.Queue()
    async with StubServer(answer) as server, StubServer(answer) as other:
        target = Target(url=server.url, model="m", api_key="k", extra_headers={"X-Tenant": "a"})
        urls = [f"{server.url}/metrics", f"{other.url}/metrics"]
        sampler = MetricsSampler(urls, target, 60.0, asyncio.get_running_loop().time, samples.put_nowait)
        task = asyncio.create_task(sampler.run())
        assert (await samples.get()).num_queued == 14
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        told = [[asked.headers.get(name) for name in ("authorization", "x-tenant")] for asked in server.asked]
        assert told == [["Bearer k", "a"]]
        assert [other.asked[0].headers.get(name) for name in ("authorization", "x-tenant")] == [None, None]


async def test_a_server_that_stops_answering_leaves_a_gap() -> None:
    answers = iter(
        [whole("200 OK", VLLM.encode(), "text/plain"), whole("500 No", b""), whole("200 OK", b"<{", "text/plain")]
    )
    last = whole("200 OK", b"vllm:num_requests_waiting 1\n", "text/plain")
    samples: asyncio.Queue[Sample] = asyncio.Queue()
    async with StubServer(lambda asked: [next(answers, last)]) as server:
        target = Target(url=server.url, model="m")
        clock = asyncio.get_running_loop().time
        sampler = MetricsSampler([f"{server.url}/metrics"], target, 0.0, clock, samples.put_nowait)
        task = asyncio.create_task(sampler.run())
        queued = [(await samples.get()).num_queued for _ in range(2)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert queued == [7, 1]
    assert sampler.num_failures == 2
    assert sampler.first_failure == f"{server.url}/metrics: 500 No"


async def test_why_an_address_cannot_be_reached_is_said_in_the_systems_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/metrics"
        told: asyncio.Queue[Sample] = asyncio.Queue()
        good = whole("200 OK", VLLM.encode(), "text/plain")
        async with StubServer(lambda asked: [good]) as server:
            urls = [f"{server.url}/metrics", url]
            target = Target(url=server.url, model="m")
            sampler = MetricsSampler(urls, target, 60.0, asyncio.get_running_loop().time, told.put_nowait)
            task = asyncio.create_task(sampler.run())
            await until(lambda: sampler.num_failures > 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert sampler.first_failure == f"{url}: Connection refused"
