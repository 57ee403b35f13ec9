"""One line for each request, also for those that fail or whose client leaves."""

from __future__ import annotations

import asyncio
import logging

import pytest

from baton.services.router.http.auth import ApiKeys, own_tenant
from baton.services.router.http.key_file import parse_keys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig

LOGGER = "baton.router.access"


async def test_each_request_is_one_line_with_its_numbers(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    rig.machine.num_cached_tokens = 4
    body = {"model": "tiny", "prompt": "hello", "max_tokens": 7, "user": "someone"}
    async with rig.http.post(rig.url + "/v1/completions", json=body, headers={"X-Request-Id": "trace-1"}) as response:
        answer = await response.json()
    await rig.post("/v1/completions", b"[]")
    done, failed = (record.fields for record in caplog.records if record.name == LOGGER)
    assert (done["trace_id"], done["reply_id"], done["status"]) == ("trace-1", answer["id"], 200)
    assert (done["num_prompt_tokens"], done["num_output_tokens"], done["num_cached_tokens"]) == (5, 7, 4)
    assert done["user"] == "someone"
    assert (failed["status"], failed["code"]) == (400, "invalid_type")


async def test_an_error_has_an_id_that_its_line_names(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    body = {"model": "tiny", "prompt": "hello", "temperature": 9}
    async with rig.http.post(rig.url + "/v1/completions", json=body) as response:
        given = response.headers["X-Request-Id"]
    async with rig.http.get(rig.url + "/v1/nothing", headers={"X-Request-Id": "trace-1"}) as response:
        assert response.headers["X-Request-Id"] == "trace-1"
    refused, unknown = (record.fields for record in caplog.records if record.name == LOGGER)
    assert (refused["reply_id"], refused["status"]) == (given, 400)
    assert unknown["reply_id"] not in ("", given)


@pytest.mark.parametrize("path", ["/v1/models", "/openapi.json", "/", "/health", "/ready", "/metrics"])
async def test_an_answer_that_nothing_was_generated_for_has_an_id_that_its_line_names(
    rig: Rig, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    async with rig.http.get(rig.url + path) as response:
        given = response.headers["X-Request-Id"]
    (line,) = (record.fields for record in caplog.records if record.name == LOGGER)
    assert (line["reply_id"], line["status"]) == (given, 200)


async def test_a_client_that_leaves_is_logged_as_gone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    rig.machine.is_held = True
    asking = asyncio.create_task(rig.complete())
    await rig.machine.until(lambda: 1 in rig.machine.live)
    asking.cancel()
    await rig.machine.until(lambda: bool(rig.machine.gone))
    await asyncio.gather(asking, return_exceptions=True)
    (gone,) = (record.fields for record in caplog.records if record.name == LOGGER)
    assert (gone["status"], gone["code"]) == (499, "client_gone")


async def test_a_line_names_the_tenant_and_never_the_key(
    model: RouterModel, caplog: pytest.LogCaptureFixture
) -> None:
    named, unnamed = "sk-0123456789abcdef", "sk-fedcba9876543210"
    keys = ApiKeys(parse_keys(f"{named} tenant=acme\n{unnamed}", "test", 9), bytes(16))
    caplog.set_level(logging.INFO, LOGGER)
    async with open_rig(model, keys, stop_grace_s=0.5) as rig:
        for key in (named, unnamed, "sk-none"):
            headers = {"Authorization": f"Bearer {key}"}
            async with rig.http.get(rig.url + "/v1/models", headers=headers) as response:
                await response.read()
    tenants = [record.fields["tenant"] for record in caplog.records if record.name == LOGGER]
    assert tenants == ["acme", own_tenant(unnamed, bytes(16)), ""]
    assert unnamed not in caplog.text


async def test_without_keys_there_is_no_tenant(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    await rig.complete()
    assert [record.fields["tenant"] for record in caplog.records if record.name == LOGGER] == [""]


async def test_prompts_and_answers_are_not_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await rig.complete(prompt="a-secret-prompt", max_tokens=15)
    assert "secret" not in caplog.text
