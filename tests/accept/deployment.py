"""One `baton up` with its processes: where they are, what they say of themselves, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec

from baton.services.runtime.process import RunRecord
from bench.machine import process_cpu_s
from tests.accept.commands import BATON, ROOT
from tests.support.metrics import plain_samples

READY_LIMIT_S = 180.0
STOP_LIMIT_S = 60.0
NAMES = ("scheduler", "prefill0", "decode0", "router")


class NotReady(Exception):
    """`baton up` ended, or did not become ready in time; the text is the end of its log."""


class Deployment:
    """A context: `baton up` runs inside, on a free port, with its run folder in a folder of its own."""

    def __init__(self, *arguments: str, model: str = "", command: tuple[str, ...] = BATON, folder: Path = ROOT) -> None:
        pd = () if "--unified" in arguments else ("--placement", "always_pd", "--strict-pd")
        self._command = [*command, "up", "--port", "0", *pd, *(("--model", model) if model else ()), *arguments]
        self._cwd = folder
        self._temporary = tempfile.TemporaryDirectory(prefix="accept-")
        self.folder = Path(self._temporary.name)
        self.url = ""

    def __enter__(self) -> Deployment:
        with (self.folder / "out").open("wb") as out, (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env={**os.environ, "TMPDIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ask it to stop; whatever is left of it after the limit is killed."""
        pids = self.pids()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pid in pids:
            if self._is_ours(pid):
                os.kill(pid, signal.SIGKILL)
        self._temporary.cleanup()

    @property
    def model(self) -> str:
        with urlopen(f"{self.url}/v1/models", timeout=30) as answer:
            return str(msgspec.json.decode(answer.read())["data"][0]["id"])

    @property
    def run_folder(self) -> Path:
        return next(self.folder.glob("baton-*"))

    def records(self) -> dict[str, RunRecord]:
        """The processes that serve, by name."""
        paths = self.folder.glob("baton-*/*.json")
        found = [msgspec.json.decode(path.read_bytes(), type=RunRecord) for path in paths]
        return {record.name: record for record in found}

    def pids(self) -> list[int]:
        """Of the launcher and of all that it has started and that serve."""
        return [self._process.pid, *(record.pid for record in self.records().values())]

    def metrics(self, name: str) -> dict[str, float]:
        """Every sample without labels, by its name without `baton_`."""
        record = self.records()[name]
        with urlopen(f"http://127.0.0.1:{record.admin_port or record.http_port}/metrics", timeout=30) as answer:
            return plain_samples(answer.read().decode())

    def wait_until_quiescent(self, limit_s: float = 60.0) -> bool:
        """Whether every process came to hold nothing of any request within the limit."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if all(self.metrics(name)["quiescent"] for name in self.records()):
                return True
            time.sleep(0.05)
        return False

    def cpu_s(self) -> float:
        """CPU time of all its processes so far."""
        return sum(map(process_cpu_s, self.pids()))

    def log_tail(self, num_chars: int = 2000) -> str:
        return (self.folder / "log").read_text(errors="replace")[-num_chars:]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            for line in (self.folder / "out").read_text().splitlines():
                if line.startswith("ready: "):
                    self.url = line.removeprefix("ready: ").removesuffix("/v1/completions")
                    return
            time.sleep(0.05)
        raise NotReady(self.log_tail())

    def _is_ours(self, pid: int) -> bool:
        """Whether that process still runs and was told this run folder."""
        try:
            return str(self.folder) in Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return False


def post(url: str, body: dict[str, Any], timeout_s: float = 120.0) -> dict[str, Any]:
    """A request that is not streamed; raises urllib's HTTPError for anything but 200."""
    request = Request(url, msgspec.json.encode(body), {"Content-Type": "application/json"})
    with urlopen(request, timeout=timeout_s) as answer:
        return dict(msgspec.json.decode(answer.read()))
