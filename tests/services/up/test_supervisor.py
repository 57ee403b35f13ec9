"""The supervisor of `baton up`: children that refuse their settings end the deployment, and every one is told."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from baton.core.ids import Role
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.log import Log
from baton.services.runtime.process import RunRecord, write_record
from baton.services.up.children import Child, StartRefused
from baton.services.up.plan import ChildPlan, UpOptions
from baton.services.up.supervisor import Supervisor
from tests.support.loops import run_on_uvloop, until

HANG_LIMIT_S = 30.0
REFUSED = (sys.executable, "-c", "raise SystemExit(2)")


def test_each_child_that_cannot_start_is_told_and_no_error_is_left_to_the_loop(tmp_path: Path) -> None:
    said = io.StringIO()
    unheard: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        life = Lifecycle(Log("launcher", 1, said))
        supervisor = Supervisor(life, UpOptions(tmp_path, cores=(0,)), tmp_path, 1)
        exits: list[Any] = []
        plans = [ChildPlan(name, Role.DECODE, REFUSED) for name in ("decode0", "decode1")]
        supervisor.children = [Child(plan, life.log, exits.append) for plan in plans]
        supervisor.start()
        await until(lambda: len(exits) == 2)
        with pytest.raises(StartRefused):
            await supervisor.until_stop()
        await supervisor.stop()
        del supervisor
        gc.collect()

    run_on_uvloop(story())
    assert unheard == []
    for name in ("decode0", "decode1"):
        assert f"{name} cannot start" in said.getvalue()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_readiness_is_asked_where_the_router_listens_and_nowhere_else(tmp_path: Path, host: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async def story() -> None:
        app = web.Application()
        app.router.add_get("/ready", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        port = runner.addresses[0][1]
        life = Lifecycle(Log("launcher", 1, io.StringIO()))
        supervisor = Supervisor(life, UpOptions(tmp_path, host=host, cores=(0,)), tmp_path, 1)
        write_record(tmp_path, RunRecord("router", 1, 1, "", 0, port))
        async with asyncio.timeout(HANG_LIMIT_S):
            assert await supervisor.until_ready() == port
        await runner.cleanup()
        supervisor.process.shut()

    run_on_uvloop(story())
