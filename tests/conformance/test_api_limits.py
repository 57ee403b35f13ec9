"""Lengths, sizes and counts: exactly at the limit works, one more is refused with the true numbers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import LIMITS, Rig, open_rig


@pytest.mark.parametrize("shape", ["text", "ids"])
async def test_api_05_a_prompt_at_its_limit_works_and_one_more_token_does_not(rig: Rig, shape: str) -> None:
    def prompt(length: int) -> object:
        return "x" * length if shape == "text" else [120] * length

    limit = LIMITS.max_prompt_len
    statuses = [(await rig.complete(prompt=prompt(limit + more)))[0] for more in (-1, 0, 1)]
    assert statuses == [200, 200, 400]
    _, answer = await rig.complete(prompt=prompt(limit + 1))
    assert f"the prompt has {limit + 1} tokens, the limit is {limit}" == answer["error"]["message"]
    assert answer["error"]["code"] == "context_length_exceeded"
    await rig.check_alive()


async def test_api_05_the_output_may_fill_the_context_and_no_more(rig: Rig) -> None:
    room = LIMITS.max_model_len - 2000
    rig.machine.chunk = 1000
    assert (await rig.complete(prompt="x" * 2000, max_tokens=room))[0] == 200
    status, answer = await rig.complete(prompt="x" * 2000, max_tokens=room + 1)
    assert status == 400
    assert answer["error"]["param"] == "max_tokens"
    for number in (LIMITS.max_model_len, 2000, room + 1):
        assert str(number) in answer["error"]["message"]
    await rig.check_alive()


async def test_api_05_the_limits_are_those_of_the_moment(rig: Rig) -> None:
    rig.front.limits = msgspec.structs.replace(LIMITS, max_prompt_len=10)
    assert (await rig.complete(prompt="x" * 11))[0] == 400
    rig.front.limits = msgspec.structs.replace(LIMITS, max_prompt_len=11)
    assert (await rig.complete(prompt="x" * 11))[0] == 200


async def test_api_05_what_cannot_fit_is_refused_without_tokenizing_it(rig: Rig) -> None:
    status, answer = await rig.complete(prompt="x" * 1_000_000)
    assert status == 400
    assert "at least" in answer["error"]["message"]
    status, answer = await rig.chat(messages=[{"role": "user", "content": "x" * 1_000_000}])
    assert (status, answer["error"]["param"]) == (400, "messages")


async def test_api_06_health_and_a_stream_go_on_while_a_huge_prompt_is_tokenized(model: RouterModel) -> None:
    """The causal form: the loop makes turns while a tokenizer thread is busy. Times are in the benchmarks."""
    async with open_rig(model, stop_grace_s=0.5) as rig:
        rig.front.limits = msgspec.structs.replace(LIMITS, max_prompt_len=1 << 20, max_model_len=1 << 21)
        huge = asyncio.create_task(rig.complete(prompt="hello " * 100_000, max_tokens=1))
        probes = 0
        while not huge.done():
            async with rig.http.get(rig.url + "/health") as response:
                assert response.status == 200
            probes += 1
        assert (await huge)[0] == 200
        assert probes > 3


async def test_api_07_two_streams_with_one_request_id_do_not_mix(rig: Rig) -> None:
    async def one(prompt: str, max_tokens: int) -> tuple[str, str, str]:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens}
        headers = {"X-Request-Id": "same"}
        async with rig.http.post(rig.url + "/v1/completions", json=body, headers=headers) as response:
            answer = await response.json()
            return answer["choices"][0]["text"], response.headers["X-Request-Id"], answer["id"]

    first, second = await asyncio.gather(one("abc", 30), one("xyz", 20))
    assert (first[0], second[0]) == ("abc" * 10, "xyz" * 6 + "xy")
    assert first[1] == second[1] == "same"
    assert first[2] != second[2]
    assert len({event.request_id for event in rig.machine.events}) == 2


async def test_api_07_a_request_id_that_is_no_plain_text_is_not_echoed(rig: Rig) -> None:
    body = {"model": "tiny", "prompt": "abc"}
    headers = {"X-Request-Id": "x" * 200}
    async with rig.http.post(rig.url + "/v1/completions", json=body, headers=headers) as response:
        answer = await response.json()
        assert response.headers["X-Request-Id"] == answer["id"]


async def chunked(total: int) -> AsyncIterator[bytes]:
    yield b'{"model":"tiny","prompt":"'
    for _ in range(total // 1000):
        yield b"x" * 1000
    yield b'"}'


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_sec_08_a_body_over_the_limit_is_a_413_with_or_without_its_length(
    model: RouterModel, is_chunked: bool
) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_body_bytes=50_000) as rig:
        data = chunked(80_000) if is_chunked else b"".join([piece async for piece in chunked(80_000)])
        headers = {"Content-Type": "application/json"}
        async with rig.http.post(rig.url + "/v1/completions", data=data, headers=headers) as response:
            assert response.status == 413
            assert (await response.json())["error"]["code"] == "body_too_large"
        assert rig.machine.events == []
        await rig.check_alive()


async def test_sec_08_the_intake_of_all_requests_is_bounded_and_given_back(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_intake_bytes=10_000) as rig:
        for _ in range(3):
            status, answer = await rig.complete(prompt="x" * 12_000)
            assert (status, answer["error"]["code"]) == (429, "queue_full")
        for _ in range(3):
            assert (await rig.complete(prompt="x" * 2000))[0] == 200


async def test_sec_08_more_open_requests_than_allowed_are_told_to_come_back(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_open_requests=2) as rig:
        rig.machine.is_held = True
        held = [asyncio.create_task(rig.complete()) for _ in range(2)]
        await rig.machine.until(lambda: len(rig.machine.live) == 2)
        async with rig.http.post(rig.url + "/v1/completions", json={"model": "tiny", "prompt": "x"}) as response:
            assert response.status == 429
            assert int(response.headers["Retry-After"]) >= 1
        rig.machine.is_held = False
        for request_id in list(rig.machine.live):
            rig.machine.go_on(request_id)
        assert [status for status, _ in await asyncio.gather(*held)] == [200, 200]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 10**6},
        {"logprobs": 49152},
        {"prompt": ["x"] * 100_000},
        {"stop": [chr(0x4E00 + index) for index in range(10_000)]},
        {"stop": "x" * 257},
        {"stop_token_ids": list(range(200))},
        {"logit_bias": {str(index % 250): 1 for index in range(250)} | {f"0{index}": 1 for index in range(100)}},
    ],
)
async def test_sec_08_and_10_costly_fields_are_refused(rig: Rig, fields: dict[str, object]) -> None:
    status, answer = await rig.complete(**fields)
    assert status == 400, answer
    assert rig.machine.events == []
    await rig.check_alive()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"h%d: x\r\n" % index for index in range(100)) + b"\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"h%d: x\r\n" % index for index in range(2000)) + b"\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nbig: " + b"x" * 20_000 + b"\r\n\r\n",
    ],
)
async def test_sec_08_too_many_or_too_long_headers_are_a_431(rig: Rig, head: bytes) -> None:
    status, error = await raw(rig, head)
    assert status == 431
    assert error["type"] == "invalid_request_error"
    await rig.check_alive()


async def test_bytes_that_are_no_http_get_the_error_shape(rig: Rig) -> None:
    status, error = await raw(rig, b"\x16\x03\x01nothing\r\n\r\n")
    assert (status, error["code"]) == (400, "invalid_http")
    await rig.check_alive()


async def raw(rig: Rig, data: bytes) -> tuple[int, dict[str, object]]:
    """(status, error) of what comes back for these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(data)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1]), json.loads(body)["error"]
