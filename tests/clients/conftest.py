"""Routers for clients: one in front of a scripted machine, and one of real processes that compute."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from baton.services.model.fetch import fetch
from tests.parity.live import LiveStack
from tests.services.router.conftest import model, rig, rig_thread  # noqa: F401 - fixtures
from tests.services.router.rig import Rig
from tests.support.openai_callers import CALLERS, Caller

PAIR = ("scheduler", "prefill", "decode", "router")


@pytest.fixture(params=list(CALLERS))
def kind(request: pytest.FixtureRequest) -> str:
    """Which of OpenAI's clients asks."""
    return str(request.param)


@pytest_asyncio.fixture
async def caller(rig: Rig, kind: str) -> AsyncIterator[Caller]:  # noqa: F811
    async with contextlib.aclosing(CALLERS[kind](rig.url)) as opened:
        yield opened


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The tiny model on a prefill and a decode executor, its KV over NIXL."""
    pytest.importorskip("nixl", reason="the transport library is not installed")
    folder: Path = fetch("tiny", tmp_path_factory.mktemp("models"))
    cpu = dict.fromkeys(("prefill", "decode"), ("--device", "cpu", "--num-blocks", "256"))
    stack = LiveStack(tmp_path_factory.mktemp("run"), folder, PAIR, cpu)
    yield stack
    stack.close()


@pytest_asyncio.fixture
async def live_caller(live: LiveStack, kind: str) -> AsyncIterator[Caller]:
    async with contextlib.aclosing(CALLERS[kind](live.stack.url)) as opened:
        yield opened
