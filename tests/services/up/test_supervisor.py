"""The supervisor of `baton up`: children that refuse their settings end the deployment, and every one is told."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from baton.core.ids import Role
from baton.services.loadgen.build import build_plan
from baton.services.loadgen.options import parse_options
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.log import Log
from baton.services.runtime.process import RunRecord, write_record
from baton.services.up.children import Child, StartRefused
from baton.services.up.plan import ChildPlan, UpOptions
from baton.services.up.preflight import Checked
from baton.services.up.supervisor import Supervisor, ready_text
from tests.support.loops import run_on_uvloop, until

HANG_LIMIT_S = 30.0
REFUSED = (sys.executable, "-c", "raise SystemExit(2)")
CHECKED = Checked("127.0.0.1", (), False, {"decode0": 10.0, "decode1": 10.0})


def test_each_child_that_cannot_start_is_told_and_no_error_is_left_to_the_loop(tmp_path: Path) -> None:
    said = io.StringIO()
    unheard: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        life = Lifecycle(Log("launcher", 1, said))
        supervisor = Supervisor(life, UpOptions(tmp_path, cores=(0,)), CHECKED, tmp_path, 1)
        exits: list[Any] = []
        plans = [ChildPlan(name, Role.DECODE, REFUSED) for name in ("decode0", "decode1")]
        supervisor.children = [Child(plan, life.log, exits.append, tmp_path) for plan in plans]
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
        supervisor = Supervisor(life, UpOptions(tmp_path, cores=(0,)), CHECKED._replace(host=host), tmp_path, 1)
        write_record(tmp_path, RunRecord("router", 1, 1, "", 0, port))
        async with asyncio.timeout(HANG_LIMIT_S):
            assert await supervisor.until_ready() == port
        await runner.cleanup()
        supervisor.process.shut()

    run_on_uvloop(story())


@pytest.mark.parametrize(
    ("checked", "told"),
    [
        (CHECKED, ("http://127.0.0.1:8000/v1", '"model": "it\'s"')),
        (CHECKED._replace(host="::1", served_names=("other",)), ("http://[::1]:8000/v1", '"model": "other"')),
        (CHECKED._replace(needs_api_key=True), ("http://127.0.0.1:8000/v1", "Authorization: Bearer $API_KEY")),
    ],
)
def test_the_first_request_that_is_shown_is_one_that_works(checked: Checked, told: tuple[str, ...]) -> None:
    ready, request, _ = ready_text(checked, 8000, Path("/models/it's")).strip().split("\n\n")
    words = shlex.split(request)
    assert ready == f"ready: {words[1]}"
    assert all(any(part in word for word in words) for part in told)


def test_the_load_that_is_shown_is_one_that_can_be_put_on_it() -> None:
    checked = CHECKED._replace(host="::1", needs_api_key=True)
    urls = [f"http://127.0.0.1:{port}/metrics" for port in (9001, 9002)]
    text = ready_text(checked, 8000, Path("/models/it's"), metrics_urls=urls)
    words = shlex.split(text.strip().split("\n\n")[2])
    assert words[:3] == ["BATON_BENCH_API_KEY=$API_KEY", "baton", "bench"]
    asked = parse_options(words[3:])
    assert (asked.target.url, asked.target.model) == ("http://[::1]:8000", "it's")
    assert len(build_plan(asked.load).requests) == 40
    assert list(asked.run.metrics) == urls
    bare = ready_text(CHECKED, 8000, Path("/models/m"), ".venv/bin/baton").strip().split("\n\n")[2]
    assert bare.startswith("  .venv/bin/baton bench --url http://127.0.0.1:8000 ")


def test_a_launcher_that_is_stopped_while_stopping_leaves_no_secret_key(tmp_path: Path) -> None:
    """In a process of its own, since it ends at once."""
    code = """
import asyncio, os, sys
from pathlib import Path
from baton.services.runtime.lifecycle import run_service
from baton.services.runtime.log import Log
from baton.services.up import supervisor
from baton.services.up.plan import UpOptions
from baton.services.up.preflight import Checked

async def stop(self):
    self.life.request_stop()  # the second one

async def until_stop(self):
    print(sum(1 for _ in Path(os.environ["TMPDIR"]).glob("baton-up-*/keys/secret/*.key")))
    self.life.request_stop()

supervisor.Supervisor.start = lambda self: None
supervisor.Supervisor.until_stop = until_stop
supervisor.Supervisor.stop = stop
checked = Checked("127.0.0.1", (), False, {})
run_service(Log("launcher", 1), lambda life: supervisor.supervise(life, UpOptions(Path("/m"), cores=(0,)), checked, 1))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_LIMIT_S, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert int(done.stdout) == 5
    assert list(tmp_path.iterdir()) == []
