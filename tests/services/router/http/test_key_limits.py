"""Limits of a key: exact in time, told truly, taken by requests that make work and by no others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.errors import ApiError
from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.key_file import parse_keys
from baton.services.router.http.key_limits import SECOND_NS, KeyLimits, RequestBucket
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig

KEY = "sk-0123456789abcdef"
OTHER = "sk-fedcba9876543210"
RATES = st.floats(1e-6, 1e6)
PAUSES = st.lists(st.integers(0, 10 * SECOND_NS), max_size=50)


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


def limited(fields: str, clock: Clock) -> ApiKeys:
    return ApiKeys(parse_keys(f"{KEY} {fields}\n{OTHER}", "test", 9), bytes(16), clock)


async def ask(rig: Rig, method: str, path: str, key: str = KEY, **options: Any) -> tuple[int, Any, Any]:
    """(status, headers, body)"""
    headers = {"Authorization": f"Bearer {key}"} | options.pop("headers", {})
    async with rig.http.request(method, rig.url + path, headers=headers, **options) as response:
        return response.status, response.headers, await response.json(content_type=None)


async def complete(rig: Rig, key: str = KEY) -> tuple[int, Any, Any]:
    return await ask(rig, "POST", "/v1/completions", key, json={"model": "tiny", "prompt": "hello", "max_tokens": 2})


@given(RATES, st.integers(1, 1000), PAUSES)
def test_a_bucket_tells_exactly_when_it_gives_and_how_much_it_has(rate: float, burst: int, pauses: list[int]) -> None:
    bucket, now_ns = RequestBucket(rate, burst), 0
    for pause_ns in pauses:
        now_ns += pause_ns
        wait_ns = bucket.wait_ns(now_ns)
        assert (wait_ns == 0) == (bucket.num_tokens(now_ns) > 0)
        if wait_ns:
            assert bucket.num_tokens(now_ns + wait_ns - 1) == 0
            assert bucket.num_tokens(now_ns + wait_ns) == 1
            continue
        before = bucket.num_tokens(now_ns)
        bucket.take(now_ns)
        assert before - 1 == bucket.num_tokens(now_ns) < burst
        refill_ns = bucket.refill_ns(now_ns)
        assert bucket.num_tokens(now_ns + refill_ns) == burst
        assert bucket.num_tokens(now_ns + refill_ns - 1) == burst - 1


@given(st.floats(0.01, 1000), st.integers(1, 20), PAUSES)
def test_no_stretch_of_time_sees_more_than_the_rate_and_one_burst(rate: float, burst: int, pauses: list[int]) -> None:
    bucket, now_ns, taken = RequestBucket(rate, burst), 0, []
    for pause_ns in pauses:
        now_ns += pause_ns
        while bucket.wait_ns(now_ns) == 0:
            bucket.take(now_ns)
            taken.append(now_ns)
    interval_ns = round(SECOND_NS / rate)
    for first, begin in enumerate(taken):
        for last in range(first, len(taken), 7):
            assert last - first + 1 <= burst + (taken[last] - begin) // interval_ns


@given(RATES, st.integers(1, 5), st.integers(0, 20 * SECOND_NS))
def test_who_waits_as_long_as_told_is_served(rate: float, burst: int, later_ns: int) -> None:
    clock = Clock()
    limits = KeyLimits(rate, burst, None, clock)
    clock.now_ns += later_ns
    for _ in range(burst):
        with limits.admitted(1):
            pass
    with pytest.raises(ApiError) as refused, limits.admitted(1):
        pass
    assert (refused.value.status, refused.value.code) == (429, "rate_limit_exceeded")
    assert refused.value.retry_after_s is not None
    assert refused.value.retry_after_s >= 1
    clock.now_ns += refused.value.retry_after_s * SECOND_NS
    with limits.admitted(1):
        assert limits.num_running == 1
    assert limits.num_running == 0


async def test_a_rate_is_refused_with_the_true_numbers_and_counts_what_makes_work_only(model: RouterModel) -> None:
    clock = Clock()
    async with open_rig(model, limited("rate=0.4 burst=2", clock), stop_grace_s=0.5) as rig:
        for method, path in (("GET", "/v1/models"), ("POST", "/nothing"), ("POST", "/v1/models")):
            _, headers, _ = await ask(rig, method, path)
            assert headers["x-ratelimit-remaining-requests"] == "2", path
        told = []
        for _ in range(2):
            status, headers, _ = await complete(rig)
            told.append((status, headers["x-ratelimit-remaining-requests"], headers["x-ratelimit-reset-requests"]))
        assert told == [(200, "1", "2.500s"), (200, "0", "5.000s")]
        clock.now_ns += SECOND_NS
        status, headers, body = await complete(rig)
        assert (status, headers["Retry-After"], headers["x-ratelimit-limit-requests"]) == (429, "2", "2")
        assert headers["x-ratelimit-reset-requests"] == "4.000s"
        assert body["error"] == {
            "message": "this key may begin 0.4 requests per second, 2 at once: the next may begin in 1.500 s",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        status, headers, _ = await complete(rig, OTHER)
        assert status == 200
        assert not [name for name in headers if name.lower().startswith("x-ratelimit")]
        clock.now_ns += 2 * SECOND_NS
        assert (await complete(rig))[0] == 200


async def test_what_is_refused_later_counts_and_an_answer_without_a_key_tells_no_limits(model: RouterModel) -> None:
    async with open_rig(model, limited("rate=1 burst=3", Clock()), stop_grace_s=0.5) as rig:
        status, headers, _ = await ask(rig, "POST", "/v1/completions", json={"model": "another"})
        assert (status, headers["x-ratelimit-remaining-requests"]) == (400, "2")
        status, headers, _ = await ask(rig, "POST", "/v1/completions", "sk-of-somebody-else", json={})
        assert status == 401
        assert "x-ratelimit-remaining-requests" not in headers
        _, headers, _ = await ask(rig, "GET", "/health")
        assert "x-ratelimit-remaining-requests" not in headers


async def test_a_stream_tells_the_limits_in_its_head(model: RouterModel) -> None:
    async with open_rig(model, limited("rate=1 burst=3", Clock()), stop_grace_s=0.5) as rig:
        body = {"model": "tiny", "prompt": "hello", "max_tokens": 2, "stream": True}
        headers = {"Authorization": f"Bearer {KEY}"}
        async with rig.http.post(rig.url + "/v1/completions", json=body, headers=headers) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            assert response.headers["x-ratelimit-remaining-requests"] == "2"
            await response.read()


def test_a_refusal_takes_nothing() -> None:
    limits = KeyLimits(1.0, 2, 1, Clock())
    with limits.admitted(7):
        for _ in range(5):
            with pytest.raises(ApiError, match="1 requests of this key are running, its limit is 1") as refused:
                limits.admitted(7).__enter__()
            assert (refused.value.code, refused.value.retry_after_s) == ("concurrency_limit_exceeded", 7)
        assert limits.num_running == 1
    assert limits.headers()["x-ratelimit-remaining-requests"] == "1"


def test_a_burst_is_a_second_of_the_rate_where_none_is_given() -> None:
    for rate, burst in ((0.1, "1"), (1.0, "1"), (2.5, "3"), (100.0, "100")):
        assert KeyLimits(rate, None, None, Clock()).headers()["x-ratelimit-limit-requests"] == burst
