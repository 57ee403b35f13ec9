"""Real processes on loopback with the fake device: KV is real memory moved by the real transport, tokens are exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from baton.services.model.fetch import fetch
from tests.support.stack import Stack

pytest.importorskip("nixl", reason="the transport library is not installed")

HANG_LIMIT_S = 120.0  #: bounds a test that hangs; nothing is measured against it
NAMES = ("scheduler", "prefill", "decode", "router")

Story = Callable[[Stack], Awaitable[None]]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch("tiny", tmp_path_factory.mktemp("models"))


class Stage:
    """Runs a story on a fresh stack; on failure the logs of all processes are shown."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self.model = model

    def run(self, story: Story, names: tuple[str, ...] = NAMES, **extra: tuple[str, ...]) -> None:
        async def whole() -> None:
            async with asyncio.timeout(HANG_LIMIT_S), self.open(names, extra) as stack:
                for name in names:
                    stack.start(name)
                await stack.ready()
                await story(stack)

        self.run_bare(whole())

    def run_bare(self, coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(coroutine)

    @asynccontextmanager
    async def open(
        self, names: tuple[str, ...], extra: dict[str, tuple[str, ...]], folder: str = ""
    ) -> AsyncIterator[Stack]:
        """A stack of which nothing has started; several at once need folders of their own."""
        stack = Stack(self.folder / folder, self.model, names=names, extra=extra)
        try:
            yield stack
        except BaseException:
            for path in sorted((self.folder / folder).glob("*.log")):
                print(f"==== {path.name}\n{path.read_text()}")
            raise
        finally:
            await stack.close()


@pytest.fixture
def stage(tmp_path: Path, tiny: Path) -> Stage:
    return Stage(tmp_path / "run", tiny)
