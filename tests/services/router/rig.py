"""A router's HTTP side on a real socket, in front of a machine that follows a script instead of running a model."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import numpy as np
import openai

from baton.core.errors import Reason
from baton.core.executor.steps import SampledToken, TokenLogprobs
from baton.core.router.events import Arrive, ClientGone, Deliver, End, StopAt
from baton.core.wire.tokens import PromptScores, pack_scores
from baton.services.grammar.checker import Checker
from baton.services.model.folder import write_model_info
from baton.services.model.tiny import write_tiny
from baton.services.router.config import HttpConfig, Limits
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.app import create_app
from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.pages import Providers
from baton.services.router.http.server import HttpServer
from baton.services.router.text.model_folder import RouterModel, load_router_model
from tests.support.raw_http import asked_and_not_read

KEY = bytes(range(16))
EOS = 257
IM_START, IM_END = 258, 259
LIMITS = Limits(max_model_len=4096, max_prompt_len=2048, layout_fingerprint=b"L" * 16, block_size=16)
Script = Callable[[Arrive, int], tuple[list[int], str]]


def tiny_router_model(folder: Path) -> RouterModel:
    write_tiny(folder)
    write_model_info(folder, "tiny", "float64")
    return load_router_model(folder, KEY)


@functools.cache
def checker_of(folder: Path) -> Checker:
    """One for all rigs of a folder: its process takes a moment to begin."""
    return Checker(folder, max_bytes=HttpConfig(()).max_built_grammar_bytes)


def prompt_ids(arrive: Arrive) -> list[int]:
    return np.frombuffer(arrive.prompt, dtype="<i4").tolist()


def echo(arrive: Arrive, choice: int) -> tuple[list[int], str]:
    """The prompt again and again, up to max_tokens; each further choice begins one token later."""
    ids = prompt_ids(arrive)
    return [ids[(choice + at) % len(ids)] for at in range(arrive.sampling.max_tokens)], "length"


def say(text: str | bytes, finish: str = "stop") -> Script:
    """Always this text, then the end-of-sequence token if it finishes with "stop"."""
    ids = list(text.encode() if isinstance(text, str) else text)

    def script(arrive: Arrive, choice: int) -> tuple[list[int], str]:
        whole = [*ids, EOS] if finish == "stop" else ids
        return (whole, finish) if len(whole) <= arrive.sampling.max_tokens else (ids, "length")

    return lambda arrive, choice: cut(script(arrive, choice), arrive.sampling.max_tokens)


def cut(answer: tuple[list[int], str], max_tokens: int) -> tuple[list[int], str]:
    ids, finish = answer
    return (ids, finish) if len(ids) <= max_tokens else (ids[:max_tokens], "length")


def sampled(arrive: Arrive, choice: int, token: int) -> SampledToken:
    """With made-up log-probabilities: the chosen one −0.5, then the following ids."""
    count = arrive.sampling.num_logprobs
    if count < 0:
        return SampledToken(choice, token)
    others = [(token + shift) % 256 for shift in range(count)]
    return SampledToken(
        choice, token, TokenLogprobs(-0.5, tuple(others), tuple(-0.5 - shift for shift in range(count)))
    )


def prompt_scores(arrive: Arrive) -> PromptScores | None:
    """Made up in the same way, of each token of the prompt but the first."""
    count = arrive.sampling.num_prompt_logprobs
    if count < 0:
        return None
    rows = [
        TokenLogprobs(-0.25, tuple((token + at) % 256 for at in range(count)), (-0.25,) * count)
        for token in prompt_ids(arrive)[1:]
    ]
    return pack_scores(1, rows)


class ScriptedMachine:
    """Keeps the contract of the router's machine: offsets in order, one finish for each choice, one End.

    Each turn of the loop it delivers `chunk` tokens to every choice. With `is_held` it answers nothing by itself.
    """

    def __init__(self) -> None:
        self.front: FrontEnd | None = None
        self.events: list[Any] = []
        self.script: Script = echo
        self.chunk = 3
        self.is_held = False
        self.refusal: End | None = None  #: its fields but the id are the end of every request
        self.num_cached_tokens = 0
        self.placement = ""  #: said with first tokens
        self.live: dict[int, dict[int, tuple[list[int], str]]] = {}
        self.arrives: dict[int, Arrive] = {}
        self.gone: list[ClientGone] = []
        self.stops: list[StopAt] = []
        self.changed = asyncio.Event()

    def submit(self, event: Any) -> None:
        self.events.append(event)
        self.changed.set()
        asyncio.get_running_loop().call_soon(self._handle, event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until an event makes the condition true."""
        async with asyncio.timeout(200):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def end(self, request_id: int, error: Reason | None, **numbers: float) -> None:
        if self.live.pop(request_id, None) is not None:
            self.front.perform(End(request_id, error, numbers, self.num_cached_tokens))

    def deliver(self, request_id: int, choice: int, count: int) -> None:
        """The next tokens of the script."""
        ids, finish = self.live[request_id][choice]
        arrive, offset = self.arrives[request_id], self.offsets[request_id, choice]
        now = ids[offset : offset + count]
        self.offsets[request_id, choice] += len(now)
        is_last = offset + len(now) == len(ids)
        if is_last:
            del self.live[request_id][choice]
        tokens = tuple(sampled(arrive, choice, token) for token in now)
        scores = prompt_scores(arrive) if choice == offset == 0 else None
        placement = self.placement if offset == 0 else ""
        self.front.perform(Deliver(request_id, choice, offset, tokens, finish if is_last else "", scores, placement))

    def _handle(self, event: Any) -> None:
        if isinstance(event, Arrive):
            self.arrives[event.request_id] = event
            self.live[event.request_id] = {k: self.script(event, k) for k in range(event.num_choices)}
            self.offsets = getattr(self, "offsets", {}) | {(event.request_id, k): 0 for k in range(event.num_choices)}
            if self.refusal is not None:
                self.end(event.request_id, self.refusal.error, **self.refusal.numbers)
            elif not self.is_held:
                self.go_on(event.request_id)
        elif isinstance(event, ClientGone):
            self.gone.append(event)
            self.end(event.request_id, event.reason)
        else:
            self.stops.append(event)
            if event.request_id in self.live:
                self.live[event.request_id].pop(event.choice, None)
        self.changed.set()

    def go_on(self, request_id: int) -> None:
        """One turn for this request, and the next one after it."""
        if request_id not in self.live:
            return
        for choice in list(self.live[request_id]):
            self.deliver(request_id, choice, self.chunk)
        if self.live.get(request_id) == {}:
            self.end(request_id, None)
        else:
            asyncio.get_running_loop().call_soon(self.go_on, request_id)


class Rig(NamedTuple):
    machine: ScriptedMachine
    front: FrontEnd
    url: str
    port: int
    server: HttpServer
    probes: dict[str, Any]  #: replaceable providers of /health and /metrics
    http: aiohttp.ClientSession
    client: openai.AsyncOpenAI

    async def post(self, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """(status, parsed body); `body` is sent as JSON unless it is bytes."""
        if isinstance(body, bytes):
            options |= {"data": body}
            options.setdefault("headers", {"Content-Type": "application/json"})
        else:
            options |= {"json": body}
        async with self.http.post(self.url + path, **options) as response:
            return response.status, await response.json()

    async def complete(self, **fields: Any) -> tuple[int, Any]:
        return await self.post("/v1/completions", {"model": "tiny", "prompt": "hello", "max_tokens": 4} | fields)

    async def chat(self, **fields: Any) -> tuple[int, Any]:
        messages = [{"role": "user", "content": "hello"}]
        return await self.post(
            "/v1/chat/completions", {"model": "tiny", "messages": messages, "max_tokens": 4} | fields
        )

    async def check_alive(self) -> None:
        """A canary request is answered."""
        status, answer = await self.complete(prompt="canary", max_tokens=6)
        assert (status, answer["choices"][0]["text"]) == (200, "canary")

    async def events_of(self, path: str, body: dict[str, Any]) -> list[str]:
        """The data of each server-sent event."""
        async with self.http.post(self.url + path, json=body | {"stream": True}) as response:
            assert response.status == 200, await response.text()
            text = await response.text()
        assert text.endswith("\n\n")
        return [event.removeprefix("data: ") for event in text.split("\n\n")[:-1]]


@contextlib.asynccontextmanager
async def open_rig(model: RouterModel, api_keys: ApiKeys | None = None, **settings: Any) -> AsyncIterator[Rig]:
    """A served front end; on the way out nothing of any request may be left."""
    config = HttpConfig(served_names=("tiny", "tiny-alias"), **settings)
    machine = ScriptedMachine()
    front = FrontEnd(machine.submit, model, config, lambda grammar: checker_of(model.folder).check(grammar))
    machine.front = front
    front.limits = LIMITS
    probes: dict[str, Any] = {"health": lambda: True, "metrics": lambda: b"# metrics\n"}

    async def health() -> bool:
        return probes["health"]()

    def readiness() -> str:
        return "" if front.limits else "no executor is known"

    providers = Providers(health, readiness, lambda: probes["metrics"]())
    server = HttpServer(create_app(front, config, providers, api_keys), front, config)
    port = await server.start()
    url = f"http://127.0.0.1:{port}"
    client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as http:
        try:
            yield Rig(machine, front, url, port, server, probes, http, client)
            await machine.until(lambda: front.num_streams == 0)
        finally:
            await client.close()
            await server.stop()
            front.close()
    assert front.num_entered == 0
    assert machine.live == {}


@contextlib.asynccontextmanager
async def unread_stream(rig: Rig) -> AsyncIterator[None]:
    """A client that does not read: several megabytes are ready for it, more than the sockets' buffers hold, and its
    request, the first, has not ended."""
    rig.machine.script = say("y" * 4000, "length")
    rig.machine.is_held = True
    fields = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "stream": True, "n": 2}
    fields |= {"max_tokens": 4000, "logprobs": True, "top_logprobs": 20}
    with asked_and_not_read(rig.port, "/v1/chat/completions", fields):
        await rig.machine.until(lambda: 1 in rig.machine.live)
        for choice in range(2):
            rig.machine.deliver(1, choice, 3990)
        yield
