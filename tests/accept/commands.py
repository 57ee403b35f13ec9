"""Child processes with a limit: their output, or the reason why there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BATON = (sys.executable, "-m", "baton.services.cli.main")
RAN_PAST_LIMIT = -1000  #: no exit code and no signal has this number


class Done(NamedTuple):
    code: int  #: RAN_PAST_LIMIT if it did
    output: str  #: stdout and stderr together

    @property
    def last_line(self) -> str:
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else ""


def run(
    command: Sequence[str], limit_s: float, environment: Mapping[str, str] | None = None, folder: Path = ROOT
) -> Done:
    """Run it in a session of its own; at the limit everything in that session ends."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=None if environment is None else {**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Done(RAN_PAST_LIMIT, f"{output}\nran past {limit_s:g} s")
    return Done(process.returncode, output)
