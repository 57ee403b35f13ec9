"""The death of an executor in the middle of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.parity.answers import Question, TokenAnswer, ask
from tests.parity.live import LiveStack


async def kill_in_mid_answer(live: LiveStack, names: tuple[str, ...], asked: Sequence[Question]) -> list[TokenAnswer]:
    """Ask all, kill the one of these executors that runs most of them, and begin its next life."""
    stack = live.stack
    pending = [asyncio.ensure_future(ask(stack.session, stack.url, question, live.names)) for question in asked]
    while True:
        running = {name: (await stack.gauges(name))["sequences_running"] for name in names}
        victim = max(running, key=lambda name: running[name])
        if running[victim] >= 2:
            break
        assert not all(task.done() for task in pending), "every answer was there before two of them ran together"
        await asyncio.sleep(0.01)
    await stack.kill(victim)
    stack.start(victim)
    return list(await asyncio.gather(*pending))
