"""Control links that are cut, freeze and heal under load."""

from __future__ import annotations

import asyncio

from tests.processes.conftest import HANG_LIMIT_S, NAMES, Stage
from tests.processes.test_deaths import settle
from tests.processes.test_stops import until_true
from tests.support.load import Load
from tests.support.stack import Stack, free_port
from tests.support.tcp_proxy import TcpProxy


class ProxiedLinks:
    """A proxy before each process that others dial."""

    def __init__(self, executors: tuple[str, ...]) -> None:
        self.ports = {name: free_port() for name in executors}
        self.proxies: dict[str, TcpProxy] = {}

    async def start(self, stack: Stack) -> None:
        """Before any process starts."""
        scheduler_port = int(stack.scheduler_address.rpartition(":")[2])
        for name, port in (*self.ports.items(), ("scheduler", scheduler_port)):
            self.proxies[name] = TcpProxy(port)
            await self.proxies[name].start()
        dialed = ("--scheduler", f"tcp://127.0.0.1:{self.proxies['scheduler'].port}")
        stack.extra["router"] = dialed
        for name, port in self.ports.items():
            listen = ("--listen", f"tcp://127.0.0.1:{port}")
            stack.extra[name] = (*dialed, *listen, "--advertise", f"tcp://127.0.0.1:{self.proxies[name].port}")

    async def close(self) -> None:
        for proxy in self.proxies.values():
            await proxy.close()


async def with_proxies(stage: Stage) -> None:
    async with asyncio.timeout(HANG_LIMIT_S), stage.open(NAMES, {}) as stack:
        links = ProxiedLinks(("prefill", "decode"))
        await links.start(stack)
        for name in NAMES:
            stack.start(name)
        await stack.ready()
        load = Load(stack)
        for name in ("prefill", "decode", "scheduler"):
            for _ in range(3):
                await load.good_answers(5)
                links.proxies[name].cut()
                links.proxies[name].heal()
        for name in ("prefill", "decode", "scheduler"):
            await load.good_answers(5)
            links.proxies[name].freeze()
            await until_true(lambda name=name: is_noticed(stack, name))
            links.proxies[name].heal()
            await stack.ready()
        await settle(stack, load)
        assert load.failures == {}
        await links.close()


async def is_noticed(stack: Stack, name: str) -> bool:
    """Whether the router has lost the link that `name` is behind."""
    if name == "scheduler":
        return (await stack.get(stack.http_port, "/ready"))[0] != 200
    return (await stack.gauges("router"))["executors_linked"] < 2


def test_cut_and_frozen_links_cost_no_client_its_answer(stage: Stage) -> None:
    stage.run_bare(with_proxies(stage))
