"""The supervisor of `baton up`: children that refuse their settings end the deployment, and every one is told."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from baton.core.ids import Role
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.log import Log
from baton.services.up.children import Child, StartRefused
from baton.services.up.plan import ChildPlan, UpOptions
from baton.services.up.supervisor import Supervisor
from tests.support.loops import run_on_uvloop, until

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
