"""What is wrong with a server is said in one line before a load begins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import pytest

from baton.services.loadgen.run_preflight import TargetRefused, check_target
from baton.services.loadgen.target import Target, TargetInvalid
from tests.support.stub_server import Asked, Step, StubServer, Until, models, whole


async def checked(step: Step, **fields: Any) -> Target:
    async with StubServer(lambda asked: [step]) as server:
        target = await check_target(Target(url=server.url, **{"model": "m", **fields}))
        assert server.asked[0].path == "/v1/models"
        return target


async def test_a_server_that_has_the_model_is_good() -> None:
    assert (await checked(models("other", "m"))).model == "m"


async def test_the_only_model_needs_no_name() -> None:
    assert (await checked(models("m"), model="")).model == "m"


async def test_a_server_without_a_list_of_models_is_believed() -> None:
    assert (await checked(whole("404 Not Found", b"", "text/plain"))).model == "m"


@pytest.mark.parametrize(
    ("step", "fields", "cause"),
    [
        (models("a", "b"), {}, "has no model 'm'; it has a, b$"),
        (models(*map(str, range(9))), {}, "it has 0, 1, 2, 3, 4, 5, 6, 7, …$"),
        (models(), {}, "it has none$"),
        (models("a", "b"), {"model": ""}, "has 2 models, of which one must be named: a, b$"),
        (whole("401 Unauthorized", {"error": {"message": "wrong key"}}), {}, "refuses the API key: 401 wrong key$"),
        (whole("503 Busy", {"error": {"message": "starting"}}), {}, "is not ready: /v1/models gives 503 starting$"),
        (whole("404 Not Found", b"x", "text/plain"), {"model": ""}, "is not ready: /v1/models gives 404 x$"),
        (whole("200 OK", b"<html>", "text/html"), {}, "does not speak OpenAI's API"),
    ],
)
async def test_what_is_wrong_is_said(step: Step, fields: dict[str, Any], cause: str) -> None:
    with pytest.raises(TargetRefused, match=cause) as told:
        await checked(step, **fields)
    assert "\n" not in str(told.value)


async def test_the_key_is_shown_to_the_server_and_to_nobody_else() -> None:
    def answer(asked: Asked) -> Iterable[Step]:
        return [models("m") if asked.headers.get("authorization") == "Bearer k-123" else whole("401 No", {})]

    async with StubServer(answer) as server:
        target = Target(url=server.url, model="m", api_key="k-123")
        assert await check_target(target) == target
        assert "k-123" not in repr(target)


async def test_a_server_that_is_not_there_or_does_not_answer_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        with pytest.raises(TargetRefused, match=r"cannot be reached: Connection refused$"):
            await check_target(Target(url=f"127.0.0.1:{taken.getsockname()[1]}", model="m"))
    async with StubServer(lambda asked: [Until(asyncio.Event())]) as server:
        with pytest.raises(TargetRefused, match=r"does not answer within 0\.05 s"):
            await check_target(Target(url=server.url, model="m", connect_timeout_s=0.05))


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h:x", "http://h/?a=1", "http://u:p@h", "http://h/é"])
async def test_what_is_no_url_is_said(url: str) -> None:
    with pytest.raises(TargetInvalid, match="no URL"):
        await check_target(Target(url=url, model="m"))
