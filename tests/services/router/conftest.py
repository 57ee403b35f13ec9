"""The tiny model's folder, and a rig around it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from baton.services.router.http.auth import ApiKeys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig, tiny_router_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> RouterModel:
    return tiny_router_model(tmp_path_factory.mktemp("tiny"))


@pytest_asyncio.fixture
async def rig(model: RouterModel) -> AsyncIterator[Rig]:
    async with open_rig(model, stop_grace_s=0.5) as opened:
        yield opened


@pytest.fixture
def rig_thread(model: RouterModel) -> Iterator[Rig]:
    """The rig on a loop of its own thread, for clients that block."""
    with threaded_rig(model, stop_grace_s=0.5) as opened:
        yield opened


@contextlib.contextmanager
def threaded_rig(model: RouterModel, api_keys: ApiKeys | None = None, **settings: Any) -> Iterator[Rig]:
    """As `open_rig`, on a loop of its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = contextlib.AsyncExitStack()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

    try:
        yield run(stack.enter_async_context(open_rig(model, api_keys, **settings)))
    finally:
        run(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
