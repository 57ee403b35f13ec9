"""A request's place among those of its key is given back however the request ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.key_file import parse_keys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig

KEY = "sk-0123456789abcdef"
LIMIT = 3
#: those that stand at the machine, and those whose body has not come whole
AT_MACHINE = ("whole", "stream", "refused", "fails midway", "leaves", "leaves midway")
IN_BODY = ("leaves in its body", "no JSON", "no model", "a bug", "too large")
ENDINGS = st.sampled_from(AT_MACHINE + IN_BODY)
MAX_BODY_BYTES = 1000
STATUS = {"whole": 200, "stream": 200, "refused": 503, "fails midway": 200, "no JSON": 400, "no model": 404,
          "a bug": 500, "too large": 413}  # fmt: skip


def keys() -> ApiKeys:
    return ApiKeys(parse_keys(f"{KEY} concurrency={LIMIT}", "test", 9), bytes(16))


def body(kind: str) -> bytes:
    if kind == "no JSON":
        return b'{"model": '
    is_stream = kind in ("stream", "fails midway", "leaves midway")
    fields = {"model": "none" if kind == "no model" else "tiny", "prompt": "hello", "max_tokens": 9}
    user = "u" * 2 * MAX_BODY_BYTES if kind == "too large" else kind
    return json.dumps(fields | {"stream": is_stream, "user": user}).encode()


class Asked:
    """One request on a connection of its own: begun, and ended when it is told."""

    def __init__(self, rig: Rig, kind: str) -> None:
        self.kind = kind
        self._rig = rig
        self._body = body(kind)
        self._request_id = 0
        self._head = b""  #: what was read of the answer while it ran

    async def begin(self) -> None:
        """Up to where the server certainly has it."""
        rig, num_entered = self._rig, self._rig.front.num_entered
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", rig.port)
        framing = "Transfer-Encoding: chunked" if self.kind == "too large" else f"Content-Length: {len(self._body)}"
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"
        self._writer.write(f"{head}Content-Type: application/json\r\n{framing}\r\n\r\n".encode())
        if self.kind in AT_MACHINE:
            known = set(rig.machine.live)
            self._writer.write(self._body)
            await rig.machine.until(lambda: len(rig.machine.live) > len(known))
            (self._request_id,) = set(rig.machine.live) - known
        else:
            while rig.front.num_entered == num_entered:
                await asyncio.sleep(0)

    async def end(self) -> None:
        """Up to where its handler is over."""
        num_entered = self._rig.front.num_entered
        await self._finish()
        if self.kind in STATUS:
            status = self._head or await self._reader.readline()
            assert int(status.split()[1]) == STATUS[self.kind]
        await self.leave()
        while self._rig.front.num_entered == num_entered:
            await asyncio.sleep(0)

    async def leave(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _finish(self) -> None:
        machine = self._rig.machine
        match self.kind:
            case "whole" | "stream":
                machine.go_on(self._request_id)
            case "refused":
                machine.end(self._request_id, Reason.KV_EXHAUSTED)
            case "fails midway" | "leaves midway":
                machine.deliver(self._request_id, 0, 2)
                self._head = await self._reader.readuntil(b"data: ")
                if self.kind == "fails midway":
                    machine.end(self._request_id, Reason.PEER_LOST)
            case "too large":
                self._writer.write(f"{len(self._body):x}\r\n".encode() + self._body + b"\r\n")
            case "no JSON" | "no model" | "a bug":
                self._writer.write(self._body)


def plant_a_bug(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is called so meets it, where a handler would hand the request over."""
    enter = rig.front.enter

    async def enter_or_fail(ask: Any, *others: Any) -> Any:
        if ask.user == "a bug":
            raise ZeroDivisionError
        return await enter(ask, *others)

    monkeypatch.setattr(rig.front, "enter", enter_or_fail)


async def check_places(rig: Rig) -> None:
    """As many as the limit says are let in, and no one more; then all of them end."""
    asked = [Asked(rig, "whole") for _ in range(LIMIT)]
    for one in asked:
        await one.begin()
    await check_full(rig)
    for one in asked:
        await one.end()


async def check_full(rig: Rig) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    status, answer = await rig.post("/v1/completions", body("whole"), headers=headers)
    assert (status, answer["error"]["code"]) == (429, "concurrency_limit_exceeded")
    assert answer["error"]["message"] == "3 requests of this key are running, its limit is 3"


async def run_endings(model: RouterModel, rounds: list[list[str]], order: list[int]) -> None:
    """In each round some requests run at the same time and end in this order."""
    async with open_rig(model, keys(), stop_grace_s=0.5, max_body_bytes=MAX_BODY_BYTES) as rig:
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant_a_bug(rig, monkeypatch)
            rig.machine.is_held = True
            for kinds in rounds:
                asked = [Asked(rig, kind) for kind in kinds]
                for one in asked:
                    await one.begin()
                if len(asked) == LIMIT:
                    await check_full(rig)
                for place in order:
                    if place < len(asked):
                        await asked[place].end()
            await check_places(rig)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(ENDINGS, max_size=LIMIT), max_size=4), st.permutations(range(LIMIT)))
def test_a_place_is_given_back_however_requests_end(
    model: RouterModel, rounds: list[list[str]], order: list[int]
) -> None:
    asyncio.run(run_endings(model, rounds, order))


@pytest.mark.parametrize("kind", AT_MACHINE + IN_BODY)
async def test_a_place_is_given_back_by_each_ending(model: RouterModel, kind: str) -> None:
    await run_endings(model, [[kind] * LIMIT], list(range(LIMIT)))


@pytest.mark.parametrize("kind", ["whole", "stream", "leaves in its body"])
async def test_a_stop_gives_every_place_back(model: RouterModel, kind: str) -> None:
    api_keys = keys()
    async with open_rig(model, api_keys, stop_grace_s=0.0) as rig:
        rig.machine.is_held = True
        asked = [Asked(rig, kind) for _ in range(LIMIT)]
        for one in asked:
            await one.begin()
        await check_full(rig)
        await rig.server.stop()
        for one in asked:
            await one.leave()
    async with open_rig(model, api_keys, stop_grace_s=0.5) as rig:
        rig.machine.is_held = True
        await check_places(rig)


async def test_a_place_belongs_to_one_key(model: RouterModel) -> None:
    text = f"{KEY} concurrency={LIMIT} tenant=a\nsk-fedcba9876543210 tenant=a"
    async with open_rig(model, ApiKeys(parse_keys(text, "test", 9), bytes(16)), stop_grace_s=0.5) as rig:
        rig.machine.is_held = True
        asked = [Asked(rig, "whole") for _ in range(LIMIT)]
        for one in asked:
            await one.begin()
        await check_full(rig)
        rig.machine.is_held = False
        headers = {"Authorization": "Bearer sk-fedcba9876543210", "Content-Type": "application/json"}
        assert (await rig.post("/v1/completions", body("whole"), headers=headers))[0] == 200
        status, _ = await rig.post("/v1/nothing", b"", headers={"Authorization": f"Bearer {KEY}"})
        assert status == 404  # makes no work, so it needs no place
        for one in asked:
            await one.end()
