"""`baton up`: a whole deployment on one machine: keys, processes, and the launcher that tells of their exits."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout

from baton.core.config import SchedulerConfig
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

READY_POLL_S = 0.1
RUN_PREFIX = "baton-up-"
STOP_TIMEOUT_S = 40.0  #: longer than a service's own drain


class Supervisor:
    """Starts, watches and ends the processes of one deployment."""

    def __init__(self, life: Lifecycle, options: UpOptions, run_folder: Path, epoch: int) -> None:
        self.life = life
        self.options = options
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
                if record is not None and record.http_port and await _is_ready(session, self.options.host, record):
                    return record.http_port
                await asyncio.sleep(READY_POLL_S)

    async def stop(self) -> None:
        """End the processes that take requests first, those that they need last; whoever takes too long is killed."""
        for child, watch in reversed(list(zip(self.children, self._watches, strict=True))):
            child.stop()
            done, _ = await asyncio.wait([watch], timeout=STOP_TIMEOUT_S)
            if not done:
                self.life.log.warn("killed", child=child.plan.name, stop_timeout_s=STOP_TIMEOUT_S)
                child.kill()
                await asyncio.wait([watch])
            if (error := watch.exception()) is not None:
                self.life.log.error("gave up", child=child.plan.name, detail=str(error))
        self.process.shut()

    def _child(self, plan: ChildPlan) -> Child:
        def exited(life: Life) -> None:
            self.process.driver.post(ChildExited(life))

        return Child(plan, self.life.log, exited)


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


async def supervise(life: Lifecycle, options: UpOptions, epoch: int) -> None:
    """Run a deployment until asked to stop."""
    remove_left_folders(Path(tempfile.gettempdir()))
    run_folder = Path(tempfile.mkdtemp(prefix=f"{RUN_PREFIX}{os.getpid()}-"))
    try:
        supervisor = Supervisor(life, options, run_folder, epoch)
        supervisor.start()
        telling = life.spawn(_tell_ready(supervisor))
        try:
            await supervisor.until_stop()
        finally:
            telling.cancel()
            await supervisor.stop()
    finally:
        shutil.rmtree(run_folder, ignore_errors=True)


def prepare_keys(folder: Path, names: list[str], journal: Path | None) -> None:
    """Make the deployment's keys. Journals are replayed with the hash key that they were written with: it stays with
    them, and a later deployment that writes to the same folder has the same one."""
    folder.mkdir(mode=0o700)
    kept = None if journal is None else journal / "hash.key"
    if kept is not None and kept.exists():
        shutil.copy(kept, folder / "hash.key")
    make_keys(folder, names)
    if kept is not None and not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "hash.key", kept)


def remove_left_folders(parent: Path) -> None:
    """Run folders, with their keys, of launchers that were killed."""
    for folder in parent.glob(f"{RUN_PREFIX}[0-9]*-*"):
        pid = folder.name.removeprefix(RUN_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


async def _tell_ready(supervisor: Supervisor) -> None:
    port = await supervisor.until_ready()
    options = supervisor.options
    url = f"http://{host_and_port(options.host, port)}/v1/completions"
    body = f'{{"model": "{options.model.name}", "prompt": "The capital of France is", "max_tokens": 16}}'
    print(f"ready: {url}\n\n  curl {url} -H 'Content-Type: application/json' -d '{body}'\n", flush=True)


async def _is_ready(session: ClientSession, host: str, router: RunRecord) -> bool:
    where = host_and_port(reachable_host(host), router.http_port)
    try:
        async with session.get(f"http://{where}/ready") as answer:
            return answer.status == 200
    except (ClientError, TimeoutError):
        return False
