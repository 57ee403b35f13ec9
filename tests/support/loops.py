"""Running a coroutine on the loop that the services run on, with a limit against hanging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
HANG_LIMIT_S = 60.0


def run_on_uvloop(coroutine: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(HANG_LIMIT_S):
            return await coroutine

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(limited())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop work until `condition` holds."""
    while not condition():
        await asyncio.sleep(0.002)
