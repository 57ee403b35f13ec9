"""Every benchmark that takes options starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SCRIPTS = sorted(path.name for path in BENCH.glob("*.py") if "ArgumentParser(" in path.read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_what_it_takes(script: str) -> None:
    command = [sys.executable, str(BENCH / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--json FILE" in done.stdout


def test_the_benchmarks_are_found() -> None:
    assert {"board.py", "policies.py", "transfer.py"} <= set(SCRIPTS)
