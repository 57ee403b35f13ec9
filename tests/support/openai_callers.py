"""OpenAI's two clients, blocking and asyncio, behind one face: a test is written once and runs with both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import openai

CALL_LIMIT_S = 60.0


class Caller(Protocol):
    async def call(self, ask: Callable[[Any], Any]) -> Any:
        """What a method of the client gives."""

    async def read(self, ask: Callable[[Any], Any]) -> list[Any]:
        """Everything of a stream that a method of the client gives."""

    async def run_stream(self, ask: Callable[[Any], Any], final: str) -> tuple[list[Any], Any]:
        """The events of one of the client's stream contexts, and what its method `final` gives after them."""

    async def leave(self, ask: Callable[[Any], Any]) -> Any:
        """The first part of a stream, which is closed then."""

    async def aclose(self) -> None: ...


class SyncCaller:
    """Calls from a thread."""

    def __init__(self, url: str, **options: Any) -> None:
        self._client = openai.OpenAI(base_url=f"{url}/v1", **_options(options))

    async def call(self, ask: Callable[[Any], Any]) -> Any:
        return await asyncio.to_thread(ask, self._client)

    async def read(self, ask: Callable[[Any], Any]) -> list[Any]:
        return await asyncio.to_thread(lambda: list(ask(self._client)))

    async def run_stream(self, ask: Callable[[Any], Any], final: str) -> tuple[list[Any], Any]:
        def run() -> tuple[list[Any], Any]:
            with ask(self._client) as stream:
                return list(stream), getattr(stream, final)()

        return await asyncio.to_thread(run)

    async def leave(self, ask: Callable[[Any], Any]) -> Any:
        def run() -> Any:
            with ask(self._client) as stream:
                return next(iter(stream))

        return await asyncio.to_thread(run)

    async def aclose(self) -> None:
        self._client.close()


class AsyncCaller:
    def __init__(self, url: str, **options: Any) -> None:
        self._client = openai.AsyncOpenAI(base_url=f"{url}/v1", **_options(options))

    async def call(self, ask: Callable[[Any], Any]) -> Any:
        return await ask(self._client)

    async def read(self, ask: Callable[[Any], Any]) -> list[Any]:
        return [part async for part in await ask(self._client)]

    async def run_stream(self, ask: Callable[[Any], Any], final: str) -> tuple[list[Any], Any]:
        async with ask(self._client) as stream:
            return [event async for event in stream], await getattr(stream, final)()

    async def leave(self, ask: Callable[[Any], Any]) -> Any:
        async with await ask(self._client) as stream:
            return await anext(aiter(stream))

    async def aclose(self) -> None:
        await self._client.close()


CALLERS: dict[str, Callable[..., Caller]] = {"sync": SyncCaller, "async": AsyncCaller}


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {"api_key": "none", "max_retries": 0, "timeout": CALL_LIMIT_S} | given
