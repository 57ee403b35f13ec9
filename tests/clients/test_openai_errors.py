"""OpenAI's client: every refusal is the class of exception that its users catch, and tells why."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from baton.core.errors import Reason
from baton.core.router.events import Arrive, End
from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.key_file import parse_keys
from baton.services.router.text.model_folder import RouterModel
from tests.clients.asked import MESSAGES
from tests.services.router.rig import Rig, open_rig
from tests.support.openai_callers import CALLERS, Caller

KEY = "sk-0123456789abcdef"
SECOND_NS = 1_000_000_000
BAD_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}


def chat(client: Any, **fields: Any) -> Any:
    return client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, "max_tokens": 5} | fields)


async def raised(caller: Caller, ask: Any, error: type[openai.APIStatusError]) -> openai.APIStatusError:
    with pytest.raises(error) as caught:
        await caller.call(ask)
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]
    return caught.value


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_wrong_field_is_a_bad_request_that_names_it(rig: Rig, caller: Caller, is_stream: bool) -> None:
    error = await raised(caller, partial(chat, temperature=9.0, stream=is_stream), openai.BadRequestError)
    assert (error.status_code, error.param, error.type) == (400, "temperature", "invalid_request_error")
    error = await raised(caller, partial(chat, extra_body={"colour": 1}, stream=is_stream), openai.BadRequestError)
    assert "colour" in error.message


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_grammar_that_is_none_cannot_be_processed(rig: Rig, caller: Caller, is_stream: bool) -> None:
    ask = partial(chat, response_format=BAD_SCHEMA, stream=is_stream)
    assert (await raised(caller, ask, openai.UnprocessableEntityError)).code == "invalid_grammar"


async def test_models_are_listed_and_what_is_not_served_is_not_found(rig: Rig, caller: Caller) -> None:
    models = await caller.call(lambda client: client.models.list())
    assert [model.id for model in models.data] == ["tiny", "tiny-alias"]
    assert (await caller.call(lambda client: client.models.retrieve("tiny-alias"))).id == "tiny-alias"
    for ask in (lambda client: client.models.retrieve("other"), partial(chat, model="other")):
        assert (await raised(caller, ask, openai.NotFoundError)).code == "model_not_found"
    error = await raised(caller, lambda client: client.embeddings.create(model="tiny", input="x"), openai.NotFoundError)
    assert "/v1/embeddings" in error.message


@pytest.mark.parametrize(
    ("reason", "error", "status"),
    [
        (Reason.QUEUE_FULL, openai.RateLimitError, 429),
        (Reason.NO_EXECUTOR, openai.InternalServerError, 503),
        (Reason.DEADLINE, openai.InternalServerError, 504),
        (Reason.INTERNAL, openai.InternalServerError, 500),
        (Reason.NEVER_FITS, openai.BadRequestError, 400),
        (Reason.GRAMMAR_FAILED, openai.UnprocessableEntityError, 422),
    ],
)
async def test_an_end_without_an_answer_is_raised(
    rig: Rig, caller: Caller, reason: Reason, error: type[openai.APIStatusError], status: int
) -> None:
    rig.machine.refusal = End(0, reason)
    for is_stream in (False, True):
        found = await raised(caller, partial(chat, stream=is_stream), error)
        assert (found.status_code, found.code) == (status, reason.name.lower())


async def test_a_key_that_is_not_known_is_not_let_in(model: RouterModel, kind: str) -> None:
    async with (
        open_rig(model, ApiKeys(parse_keys(KEY, "test", 9), bytes(16))) as rig,
        contextlib.aclosing(CALLERS[kind](rig.url, api_key="sk-other-0123456789")) as stranger,
        contextlib.aclosing(CALLERS[kind](rig.url, api_key=KEY)) as friend,
    ):
        await raised(stranger, chat, openai.AuthenticationError)
        assert (await friend.call(chat)).choices


class Clock:
    """Of the server's limits. It goes on by what the client waits before it tries again, and by nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.waits_s: list[float] = []
        plain = SimpleNamespace(time=time.time, sleep=self.wait)
        monkeypatch.setattr("openai._base_client.time", plain)
        monkeypatch.setattr("openai._base_client.anyio", SimpleNamespace(sleep=self.wait_async))

    def __call__(self) -> int:
        return self.now_ns

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_ns += round(seconds * SECOND_NS)

    async def wait_async(self, seconds: float) -> None:
        self.wait(seconds)
        await asyncio.sleep(0)


async def test_the_client_waits_as_long_as_it_is_told_and_is_served(
    model: RouterModel, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    keys = ApiKeys(parse_keys(f"{KEY} rate=0.2 burst=1", "test", 9), bytes(16), clock)
    async with (
        open_rig(model, keys) as rig,
        contextlib.aclosing(CALLERS[kind](rig.url, api_key=KEY, max_retries=1)) as caller,
    ):
        for _ in range(3):
            assert (await caller.call(chat)).choices
        assert len([event for event in rig.machine.events if isinstance(event, Arrive)]) == 3
    assert clock.waits_s == [5.0, 5.0]
