"""A child of `baton up`: restarted with a later epoch whatever ended it, unless it says that it cannot start."""

from __future__ import annotations

import asyncio
import io
import signal
import sys

import pytest

from baton.core.ids import Life, Role
from baton.services.runtime.log import Log
from baton.services.up.children import Child, StartRefused
from baton.services.up.plan import ChildPlan
from tests.support.loops import run_on_uvloop, until

FOREVER = "import signal; signal.pause()"


def child(code: str, exits: list[Life]) -> Child:
    plan = ChildPlan("decode0", Role.DECODE, (sys.executable, "-c", code))
    return Child(plan, Log("launcher", 1, io.StringIO()), exits.append)


def test_a_killed_child_lives_again_under_a_later_epoch_and_its_exit_is_told_first() -> None:
    async def story() -> None:
        exits: list[Life] = []
        made = child(FOREVER, exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.pid != 0)
        first = made.epoch
        made.kill()
        await until(lambda: made.pid != 0 and made.num_starts == 2)
        assert exits == [Life("decode0", first)]
        assert made.epoch > first
        made.stop()
        await watch
        assert len(exits) == 2

    run_on_uvloop(story())


def test_a_child_that_refuses_its_settings_is_not_started_again() -> None:
    async def story() -> None:
        made = child("raise SystemExit(2)", [])
        with pytest.raises(StartRefused, match="decode0"):
            await made.keep_running()
        assert made.num_starts == 1

    run_on_uvloop(story())


def test_stopping_ends_a_backoff_at_once() -> None:
    async def story() -> None:
        exits: list[Life] = []
        made = child("raise SystemExit(1)", exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: len(exits) == 3)
        made.stop()
        await watch
        assert made.num_starts == 3

    run_on_uvloop(story())


def test_a_child_does_not_hear_the_launchers_interrupt() -> None:
    async def story() -> None:
        made = child("import os; raise SystemExit(3 if os.getpid() == os.getsid(0) else 2)", [])
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.num_starts == 2)
        made.stop()
        await watch

    run_on_uvloop(story())


def test_a_child_that_ignores_the_request_can_be_killed() -> None:
    async def story() -> None:
        exits: list[Life] = []
        made = child("import signal; signal.signal(15, signal.SIG_IGN); " + FOREVER, exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.pid != 0)
        made.stop()
        made.kill()
        await watch
        assert len(exits) == 1

    assert signal.SIGTERM == 15
    run_on_uvloop(story())
