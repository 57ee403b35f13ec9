"""What the server says of itself during a run: its queue, what runs, and how full its KV memory is."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from baton.services.loadgen.answers import one_line
from baton.services.loadgen.client import tls_context
from baton.services.loadgen.client_connection import Clock
from baton.services.loadgen.run_preflight import cause_of_http
from baton.services.loadgen.target import Target, address_of, headers_of

QUEUED = ("baton_queued", "vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size")
RUNNING = ("baton_sequences_running", "vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size")
KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")  #: between 0 and 1
KV_BLOCKS = ("baton_blocks", "baton_blocks_free")  #: all, and those that nothing holds
TIMEOUT_S = 5.0
ACCEPTED = {"Accept": "text/plain"}


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all asked addresses said together. None: no one of them says it."""

    time_s: float  #: since the run began, when the last answer was there
    num_queued: float | None = None
    num_running: float | None = None
    kv_use: float | None = None  #: between 0 and 1; the mean of several


def read_metrics(texts: Sequence[str], time_s: float) -> Sample:
    """Out of expositions of Prometheus, whatever else they hold. Raises ValueError."""
    values: dict[str, list[float]] = {}
    try:
        for text in texts:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if math.isfinite(sample.value):
                        values.setdefault(sample.name, []).append(sample.value)
    except IndexError as error:  # the library's answer to a label without a name
        raise ValueError(f"no exposition: {error}") from error
    return Sample(
        time_s=time_s,
        num_queued=total(values, QUEUED),
        num_running=total(values, RUNNING),
        kv_use=kv_use(values),
    )


def total(values: dict[str, list[float]], names: Sequence[str]) -> float | None:
    found = [value for name in names for value in values.get(name, ())]
    return sum(found) if found else None


def kv_use(values: dict[str, list[float]]) -> float | None:
    blocks, free = (sum(values.get(name, ())) for name in KV_BLOCKS)
    if blocks > 0 and KV_BLOCKS[1] in values:
        return 1.0 - free / blocks
    found = [value for name in KV_USE for value in values.get(name, ())]
    return sum(found) / len(found) if found else None


class MetricsSampler:
    """Asks at a fixed pace until it is cancelled. A server that does not answer makes a gap, and no failure.

    Addresses of the target are asked with its key and headers, those of other servers are not.
    """

    def __init__(
        self, urls: Sequence[str], target: Target, every_s: float, clock: Clock, told: Callable[[Sample], None]
    ) -> None:
        """Raises TargetInvalid."""
        self.num_failures = 0
        self.first_failure = ""
        self._urls = urls
        self._asked = ""  #: the address that was asked last
        self._origin = address_of(target.url).origin + "/"
        self._headers = headers_of(target)
        self._tls = tls_context(target)
        self._every_s = every_s
        self._clock = clock
        self._told = told

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            due_s = self._clock()
            while True:
                await self._sample(session)
                due_s = max(due_s + self._every_s, self._clock())
                await asyncio.sleep(due_s - self._clock())

    async def _sample(self, session: aiohttp.ClientSession) -> None:
        try:
            texts = [await self._text(session, url) for url in self._urls]
            self._told(read_metrics(texts, self._clock()))
        except TimeoutError:
            self._failed(f"no answer within {TIMEOUT_S:g} s")
        except (aiohttp.ClientError, OSError) as error:
            self._failed(cause_of_http(error))
        except ValueError as error:
            self._failed(str(error))

    def _failed(self, cause: str) -> None:
        self.num_failures += 1
        self.first_failure = self.first_failure or one_line(f"{self._asked}: {cause}")

    async def _text(self, session: aiohttp.ClientSession, url: str) -> str:
        self._asked = url
        headers = self._headers if url.startswith(self._origin) else {}
        async with session.get(url, headers=headers | ACCEPTED, ssl=self._tls) as response:
            response.raise_for_status()
            return await response.text()
