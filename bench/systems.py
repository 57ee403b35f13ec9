"""What is measured: systems of several processes that serve OpenAI's API on loopback, ours among them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from baton.services.up.supervisor import RUN_PREFIX
from bench.machine import children, command_line, family

START_LIMIT_S = 300.0
STOP_LIMIT_S = 15.0


class System(Protocol):
    """Is ready when it is made."""

    name: str
    port: int
    model: str  #: as requests name it

    def processes(self) -> dict[str, list[int]]:
        """What its CPU is told by → process ids; the one that clients talk to is first."""
        ...

    def close(self) -> None: ...


class CannotStart(Exception):
    """A system did not become ready; the message ends with what its processes said."""


class Programs:
    """Processes that are started together, with a log each in one folder."""

    def __init__(self, folder: Path) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what is running is closed then, too
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environment: dict[str, str] | None = None) -> int:
        with self.log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **(environment or {})},
            )
        return self._running[name].pid

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Raises CannotStart, after everything was closed."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and all(process.poll() is None for process in self._running.values()):
            if is_ready():
                return
            time.sleep(0.1)
        self.close()
        said = "".join(f"{name}:\n{self.log(name).read_text(errors='replace')[-2000:]}\n" for name in self._running)
        raise CannotStart(f"not ready after {START_LIMIT_S:.0f} s, or ended before:\n{said}")

    def close(self) -> None:
        """With all that they started, as some leave workers behind."""
        members = [pid for process in self._running.values() if process.poll() is None for pid in family(process.pid)]
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_LIMIT_S)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._running.values():
            process.wait()


def served_model(port: int) -> str:
    """The first model that a server lists; nothing if it does not answer yet or has none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
            models = json.load(answer)["data"]
    except OSError:
        return ""
    return str(models[0]["id"]) if models else ""


#: of `baton up`: all prompts are computed by prefill executors
PD = ("--placement", "always_pd", "--strict-pd")


class Baton:
    """`baton up`, with flags and a configuration."""

    def __init__(
        self,
        name: str,
        folder: Path,
        flags: Sequence[str],
        config: str = "",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        file = folder / "bench.toml"
        file.write_text(config, encoding="utf-8")
        command = [sys.executable, "-m", "baton.services.cli.main", "up", "--port", "0", "--config", str(file), *flags]
        self._programs = Programs(folder)
        self._pid = self._programs.start("up", command, environment)
        self._programs.wait_until(lambda: "ready: " in self.log())
        self.port = int(self.log().split("ready: http://127.0.0.1:", 1)[1].split("/", 1)[0])
        self.model = served_model(self.port)

    def processes(self) -> dict[str, list[int]]:
        """Each service with the processes that it started, by its role."""
        found: dict[str, list[int]] = {"router": [], "scheduler": []}
        for pid in children(self._pid):
            role = command_line(pid).partition(" -m baton.services.")[2].split(" ", 1)[0]
            found.setdefault(role, []).extend(family(pid))
        return found

    def run_folder(self) -> Path:
        """Where its processes have said where they serve."""
        return next(Path(tempfile.gettempdir()).glob(f"{RUN_PREFIX}{self._pid}-*"))

    def close(self) -> None:
        self._programs.close()

    def log(self) -> str:
        """What its processes have said so far."""
        return self._programs.log("up").read_text(errors="replace")
