"""Requests that no handler sees get the error shape of all others, and say what was asked for."""

from __future__ import annotations

import asyncio

import pytest

from tests.services.router.rig import Rig


async def test_a_path_that_is_not_served_is_named_and_shortened(rig: Rig) -> None:
    async with rig.http.get(f"{rig.url}/v1/nothing") as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"], error["message"]) == (404, "not_found", "there is no /v1/nothing here")
    async with rig.http.get(f"{rig.url}/{'x' * 2000}") as response:
        assert len((await response.json())["error"]["message"]) < 600


async def test_a_method_that_is_not_served_is_named_with_those_that_are(rig: Rig) -> None:
    async with rig.http.get(f"{rig.url}/v1/completions") as response:
        error = (await response.json())["error"]
        assert (response.status, error["message"]) == (405, "GET is not for /v1/completions: POST")


@pytest.mark.parametrize("target", [b"example.com:443", b"/v1/models"])
async def test_what_a_tunnel_was_asked_for_to_is_named(rig: Rig, target: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(b"CONNECT " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b'"there is no ' + target + b' here"' in await reader.readuntil(b"}}")
    writer.close()


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/nothing"])
async def test_an_expectation_that_nobody_knows_gets_the_error_shape(rig: Rig, path: str) -> None:
    async with rig.http.post(rig.url + path, data=b"{}", headers={"Expect": "x"}) as response:
        assert (response.status, response.content_type) == (417, "application/json")
        error = (await response.json())["error"]
        assert (error["code"], error["type"]) == ("expectation_failed", "invalid_request_error")
    await rig.check_alive()
