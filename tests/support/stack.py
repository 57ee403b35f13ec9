"""Starts real Baton processes on loopback, and is their launcher: it sees their exits and tells the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from baton.core.ids import Life
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.log import Log
from baton.services.runtime.process import Process, RunRecord, read_record
from baton.services.transport.keys import KeyRing, make_keys
from baton.services.up.launcher import ChildExited, LauncherCore
from baton.services.up.supervisor import launcher_settings
from tests.support.loops import until
from tests.support.metrics import plain_samples

#: small enough that block reuse, preemption and waiting happen within a test
EXECUTOR_FLAGS = (
    "--device",
    "fake",
    "--num-blocks",
    "64",
    "--block-size",
    "16",
    "--token-budget",
    "64",
    "--num-slots",
    "16",
)
#: prompts are computed by prefill executors alone: what the transfers are there for
PD_FLAGS = ("--placement", "always_pd", "--strict-pd", "true")
FAST_LINK_FLAGS = ("--heartbeat-s", "0.2", "--silence-s", "1.0")


def free_port() -> int:
    """One that the system gives to nobody by itself, so that it stays free until its server has started."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(16_384, max(first_given, 24_576))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Stack:
    """Processes by name. Make it inside a running loop; `close` ends everything and checks nothing."""

    def __init__(self, folder: Path, model: Path, *, names: tuple[str, ...], extra: dict[str, tuple[str, ...]]) -> None:
        self.folder = folder
        self.model = model
        self.scheduler_address = f"tcp://127.0.0.1:{free_port()}"
        self.http_port = free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.extra = extra  #: by role, or by name: more flags
        self._epochs: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)
        make_keys(folder / "keys", ["launcher", *names])
        settings = launcher_settings(folder, time.time_ns() // 1_000_000, self.scheduler_address)
        life = Lifecycle(Log("launcher", settings.service.epoch, io.StringIO()))
        self._launcher = Process(life, settings, KeyRing(folder / "keys", "launcher"), LauncherCore)
        self._launcher.dial_scheduler()
        everyone_at_once = TCPConnector(limit=0)  # the client's own queue would hide how many there are
        self._session = ClientSession(connector=everyone_at_once, timeout=ClientTimeout(total=60))

    # ---- processes

    def start(self, name: str) -> None:
        """Begin a new life of `name`; its role is the name without its number."""
        role = name.rstrip("0123456789")
        epoch = max(self._epochs.get(name, 0) + 1, time.time_ns() // 1_000_000)
        self._epochs[name] = epoch
        command = [sys.executable, "-P", "-m", f"baton.services.{role}", "--name", name, "--epoch", str(epoch)]
        command += ["--keys", str(self.folder / "keys"), "--run-folder", str(self.folder)]
        command += ["--parent-pid", str(os.getpid()), *FAST_LINK_FLAGS, *self._flags(role)]
        command += [*self.extra.get(role, ()), *(self.extra.get(name, ()) if name != role else ())]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BATON_")}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=environment)

    def _flags(self, role: str) -> tuple[str, ...]:
        if role == "scheduler":
            return ("--listen", self.scheduler_address, *PD_FLAGS)
        common = ("--drain-timeout-s", "5", "--scheduler", self.scheduler_address, "--model", str(self.model))
        if role == "router":
            return (*common, "--port", str(self.http_port))
        return (*common, *EXECUTOR_FLAGS)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    async def kill(self, name: str) -> None:
        """End its life at once; returns when the exit was seen and told."""
        self.running[name].kill()
        await self.exited(name)

    async def exited(self, name: str) -> int:
        """Wait for the end of its life, tell it, return its exit code."""
        process = self.running[name]
        await until(lambda: process.poll() is not None)
        del self.running[name]
        self._launcher.driver.post(ChildExited(Life(name, self._epochs[name])))
        return process.returncode

    async def record(self, name: str) -> RunRecord:
        """Where the current life of `name` serves; waits for it, and fails if it has ended instead."""
        while True:
            record = read_record(self.folder, name)
            if record is not None and record.epoch == self._epochs[name]:
                return record
            assert self.running[name].poll() is None, self.log(name)
            await asyncio.sleep(0.01)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    async def close(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.running.values():
            process.wait()
        self._launcher.shut()
        await self._session.close()

    # ---- what they say

    @property
    def session(self) -> ClientSession:
        return self._session

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    async def ready(self) -> None:
        """Wait until the router says that a request would work."""
        await self.record("router")
        while (await self.get(self.http_port, "/ready"))[0] != 200:
            await asyncio.sleep(0.02)

    async def get(self, port: int, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()

    async def gauges(self, name: str) -> dict[str, float]:
        """Every sample of `/metrics` that has no labels, without its `baton_` prefix."""
        return plain_samples(await self.metrics(name))

    async def metrics(self, name: str) -> str:
        """The text of its `/metrics`."""
        record = await self.record(name)
        return (await self.get(record.admin_port or record.http_port, "/metrics"))[1]

    async def quiescent(self) -> None:
        """Wait until no process holds anything of any request."""
        for name in list(self.running):
            while not (await self.gauges(name))["quiescent"]:
                await asyncio.sleep(0.02)
