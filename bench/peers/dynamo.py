"""Dynamo's front end before its mocker, an engine that answers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Protocol

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_LIMIT_S = 120.0
STOP_LIMIT_S = 15.0
PORT = 8888
PLANES = ("--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq")
MARK = "BATON_BENCH_NETWORK"


class System(Protocol):
    """Something that serves the API on loopback, with a front end whose CPU is counted."""

    name: str
    port: int
    model: str

    def cpu_s(self) -> float: ...

    def close(self) -> None: ...


def process_cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def enter_own_network() -> None:
    """Start this program again in a network namespace that has loopback and nothing else."""
    if os.environ.get(MARK):
        return
    os.environ[MARK] = "1"
    inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
    os.execvp("unshare", ["unshare", "--net", *inside])


class Dynamo:
    """`python` is that of an environment with `ai-dynamo`; `model` a folder with a tokenizer and a chat template."""

    name = "dynamo"
    port = PORT
    model = "m"

    def __init__(self, folder: Path, model: Path, python: Path) -> None:
        self._folder = folder
        # no logs of single requests: they cost it as much as the requests
        self._environment = {**os.environ, "DYN_FILE_KV": str(folder / "kv"), "HF_HUB_OFFLINE": "1", "DYN_LOG": "error"}
        front = ["dynamo.frontend", "--router-mode", "kv", "--http-port", str(PORT)]
        mocker = ["dynamo.mocker", "--model-path", str(model), "--model-name", self.model, "--speedup-ratio", "1000"]
        self._front = self._start(python, front)
        self._mocker = self._start(python, mocker)
        self._wait()

    def cpu_s(self) -> float:
        return process_cpu_s(self._front.pid)

    def close(self) -> None:
        for process in (self._front, self._mocker):
            process.terminate()
        for process in (self._front, self._mocker):
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, python: Path, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{command[0]}.log").open("wb") as log:
            return subprocess.Popen(
                [str(python.absolute()), "-m", *command, *PLANES],
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._front.poll() is None and self._mocker.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/models") as answer:
                    if json.load(answer)["data"]:
                        return
            except OSError:
                pass
            time.sleep(0.1)
        self.close()
        logs = "".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.log"))
        raise SystemExit(f"Dynamo did not become ready:\n{logs}")
