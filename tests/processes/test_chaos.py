"""Everything that can happen to processes and links, in random order under load: exact answers, no end missing, nothing
left behind. `BATON_CHAOS_SEED` and `BATON_CHAOS_ACTIONS` choose another and a longer story."""

from __future__ import annotations

import asyncio
import os
import random
import signal

from tests.processes.conftest import Stage
from tests.processes.test_deaths import CLIENT_SAW_IT_DIE, settle
from tests.processes.test_links import ProxiedLinks
from tests.support.load import Load
from tests.support.stack import Stack

EXECUTORS = ("prefill0", "prefill1", "decode0", "decode1")
NAMES = ("scheduler", *EXECUTORS, "router")
SEED = int(os.environ.get("BATON_CHAOS_SEED", "1"))
NUM_ACTIONS = int(os.environ.get("BATON_CHAOS_ACTIONS", "10"))
SECONDS_PER_ACTION = 60.0  #: bounds a story that hangs


class Chaos:
    """One random action after the other, each begun when the load has moved on a little."""

    def __init__(self, stack: Stack, links: ProxiedLinks, rng: random.Random) -> None:
        self._stack = stack
        self._links = links
        self._rng = rng
        self.router_died = False

    async def act(self) -> str:
        action = self._rng.choice([self.kill, self.pause, self.cut, self.freeze, self.terminate, self.kill_two])
        return await action()

    async def kill(self) -> str:
        name = self._rng.choice(NAMES)
        self.router_died |= name == "router"
        await self._stack.kill(name)
        self._stack.start(name)
        return f"kill {name}"

    async def kill_two(self) -> str:
        names = self._rng.sample(EXECUTORS, 2)
        for name in names:
            await self._stack.kill(name)
        for name in names:
            self._stack.start(name)
        return f"kill {names}"

    async def terminate(self) -> str:
        name = self._rng.choice(EXECUTORS)
        self._stack.running[name].terminate()
        assert await self._stack.exited(name) in (0, -signal.SIGTERM), self._stack.log(name)
        self._stack.start(name)
        return f"terminate {name}"

    async def pause(self) -> str:
        name = self._rng.choice(NAMES)
        self._stack.signal(name, signal.SIGSTOP)
        await asyncio.sleep(self._rng.choice([0.05, 0.5, 2.5]))
        self._stack.signal(name, signal.SIGCONT)
        return f"pause {name}"

    async def cut(self) -> str:
        name = self._rng.choice(list(self._links.proxies))
        self._links.proxies[name].cut()
        self._links.proxies[name].heal()
        return f"cut {name}"

    async def freeze(self) -> str:
        name = self._rng.choice(list(self._links.proxies))
        self._links.proxies[name].freeze()
        await asyncio.sleep(self._rng.choice([0.05, 0.5, 2.5]))
        self._links.proxies[name].heal()
        return f"freeze {name}"


def test_random_faults_under_load_cost_no_token_and_leave_nothing_behind(stage: Stage) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_PER_ACTION * (NUM_ACTIONS + 2)), stage.open(NAMES, {}) as stack:
            links = ProxiedLinks(EXECUTORS)
            await links.start(stack)
            for name in NAMES:
                stack.start(name)
            await stack.ready()
            chaos = Chaos(stack, links, random.Random(SEED))
            load = Load(stack, seed=SEED)
            for number in range(NUM_ACTIONS):
                await load.good_answers(5)
                print(number, await chaos.act(), dict(load.failures), flush=True)
            await stack.ready()
            await settle(stack, load)
            assert set(load.failures) <= (CLIENT_SAW_IT_DIE if chaos.router_died else set())
            await links.close()

    stage.run_bare(story())
