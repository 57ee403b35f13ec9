"""`baton up`: a whole deployment on one machine: keys, processes, and the launcher that tells of their exits."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout

from baton.core.config import SchedulerConfig
from baton.core.errors import ServingError
from baton.core.ids import Life, Role
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.process import Process, RunRecord, read_record
from baton.services.runtime.settings import (
    DeviceSettings,
    HttpSettings,
    LinkSettings,
    ModelSettings,
    ServiceSettings,
    Settings,
)
from baton.services.transport.http_address import host_and_port, reachable_host
from baton.services.transport.keys import KeyRing, make_keys
from baton.services.up.children import Child
from baton.services.up.launcher import ChildExited, LauncherCore
from baton.services.up.plan import LAUNCHER_NAME, ChildPlan, UpOptions, control_endpoint, plan_children
from baton.services.up.preflight import Checked

READY_POLL_S = 0.1
RUN_PREFIX = "baton-up-"


class RunFolderUnusable(ServingError):
    """The folder of a deployment's keys and sockets cannot be made or filled."""


class Supervisor:
    """Starts, watches and ends the processes of one deployment."""

    def __init__(self, life: Lifecycle, options: UpOptions, checked: Checked, run_folder: Path, epoch: int) -> None:
        self.life = life
        self.checked = checked
        self.run_folder = run_folder
        plans = plan_children(options, run_folder, os.getpid())
        prepare_keys(run_folder / "keys", [LAUNCHER_NAME, *(plan.name for plan in plans)], options.journal)
        ring = KeyRing(run_folder / "keys", LAUNCHER_NAME)
        settings = launcher_settings(run_folder, epoch, control_endpoint(run_folder, "scheduler"))
        self.process = Process(life, settings, ring, LauncherCore)
        self.children = [self._child(plan) for plan in plans]
        self._watches: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.process.dial_scheduler()
        self._watches = [asyncio.ensure_future(child.keep_running()) for child in self.children]

    async def until_stop(self) -> None:
        """Until asked to stop, or until a process cannot be started at all (StartRefused)."""
        stop = asyncio.ensure_future(self.life.stop_requested())
        done, _ = await asyncio.wait([stop, *self._watches], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        for task in done - {stop}:
            task.result()

    async def until_ready(self) -> int:
        """Wait for the router to say that a request would work; return its port."""
        async with ClientSession(timeout=ClientTimeout(total=5)) as session:
            while True:
                record = read_record(self.run_folder, "router")
                if record is not None and record.http_port and await _is_ready(session, self.checked.host, record):
                    return record.http_port
                await asyncio.sleep(READY_POLL_S)

    def metrics_urls(self) -> list[str]:
        """Of the processes that know of queues and KV, as far as they serve."""
        others = [child.plan for child in self.children if child.plan.role is not Role.ROUTER]
        records = [read_record(self.run_folder, plan.name) for plan in others]
        ports = [record.admin_port for record in records if record is not None and record.admin_port]
        return [f"http://127.0.0.1:{port}/metrics" for port in ports]

    async def stop(self) -> None:
        """End the processes that take requests first, those that they need last; whoever takes too long is killed."""
        for child, watch in reversed(list(zip(self.children, self._watches, strict=True))):
            child.stop()
            timeout_s = self.checked.stop_timeouts_s[child.plan.name]
            done, _ = await asyncio.wait([watch], timeout=timeout_s)
            if not done:
                self.life.log.warn("killed", child=child.plan.name, stop_timeout_s=timeout_s)
                child.kill()
                await asyncio.wait([watch])
            if (error := watch.exception()) is not None:
                self.life.log.error("gave up", child=child.plan.name, detail=str(error))
        self.process.shut()

    def _child(self, plan: ChildPlan) -> Child:
        def exited(life: Life) -> None:
            self.process.driver.post(ChildExited(life))

        return Child(plan, self.life.log, exited, self.run_folder)


def launcher_settings(run_folder: Path, epoch: int, scheduler: str) -> Settings:
    return Settings(
        role=Role.LAUNCHER,
        service=ServiceSettings(name=LAUNCHER_NAME, epoch=epoch),
        link=LinkSettings(keys=str(run_folder / "keys"), scheduler=scheduler),
        model=ModelSettings(),
        device=DeviceSettings(),
        http=HttpSettings(),
        knobs=SchedulerConfig(),
    )


async def supervise(life: Lifecycle, options: UpOptions, checked: Checked, epoch: int) -> None:
    """Run a deployment until asked to stop."""
    remove_left_folders(Path(tempfile.gettempdir()))
    run_folder = make_run_folder()
    life.before_exit(lambda: shutil.rmtree(run_folder, ignore_errors=True))  # it holds secret keys
    try:
        supervisor = Supervisor(life, options, checked, run_folder, epoch)
        supervisor.start()
        telling = life.spawn(_tell_ready(supervisor, options.model))
        try:
            await supervisor.until_stop()
        finally:
            telling.cancel()
            await supervisor.stop()
    finally:
        shutil.rmtree(run_folder, ignore_errors=True)


def make_run_folder() -> Path:
    """Raises RunFolderUnusable."""
    try:
        return Path(tempfile.mkdtemp(prefix=f"{RUN_PREFIX}{os.getpid()}-"))
    except OSError as error:
        raise RunFolderUnusable(f"no folder for keys and sockets can be made (see $TMPDIR): {error}") from error


def prepare_keys(folder: Path, names: list[str], journal: Path | None) -> None:
    """Make the deployment's keys. Journals are replayed with the hash key that they were written with: it stays with
    them, and a later deployment that writes to the same folder has the same one."""
    folder.mkdir(mode=0o700)
    kept = None if journal is None else journal / "hash.key"
    try:
        if kept is not None and kept.exists():
            shutil.copy(kept, folder / "hash.key")
        make_keys(folder, names)
        if kept is not None and not kept.exists():
            shutil.copy(folder / "hash.key", kept)
    except OSError as error:
        raise RunFolderUnusable(f"the deployment's keys cannot be written: {error}") from error


def remove_left_folders(parent: Path) -> None:
    """Run folders, with their keys, of launchers that were killed."""
    for folder in parent.glob(f"{RUN_PREFIX}[0-9]*-*"):
        pid = folder.name.removeprefix(RUN_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


async def _tell_ready(supervisor: Supervisor, model: Path) -> None:
    port = await supervisor.until_ready()
    print(ready_text(supervisor.checked, port, model, program(), supervisor.metrics_urls()), flush=True)


def program() -> str:
    """What to type for this command where it was typed."""
    return sys.argv[0] if Path(sys.argv[0]).name == "baton" else "baton"


def ready_text(
    checked: Checked, port: int, model: Path, program: str = "baton", metrics_urls: Sequence[str] = ()
) -> str:
    """Where the API is, and a first request and a load that work there as they stand (but for the user's API key)."""
    origin = f"http://{host_and_port(checked.host, port)}"
    url = f"{origin}/v1/completions"
    name = (*checked.served_names, model.name)[0]
    body = json.dumps({"model": name, "prompt": "The capital of France is", "max_tokens": 16})
    key = ' -H "Authorization: Bearer $API_KEY"' if checked.needs_api_key else ""
    request = f"curl {shlex.quote(url)}{key} -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    load_key = 'BATON_BENCH_API_KEY="$API_KEY" ' if checked.needs_api_key else ""
    asked = ("bench", "--url", origin, "--model", name, "--num-requests", "40", "--concurrency", "8")
    sampled = [word for url in metrics_urls for word in ("--metrics", url)]
    load = load_key + shlex.join((program, *asked, *sampled))
    return f"ready: {url}\n\n  {request}\n\n  {load}\n"


async def _is_ready(session: ClientSession, host: str, router: RunRecord) -> bool:
    where = host_and_port(reachable_host(host), router.http_port)
    try:
        async with session.get(f"http://{where}/ready") as answer:
            return answer.status == 200
    except (ClientError, TimeoutError):
        return False
