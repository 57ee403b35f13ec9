"""Compiled modules give what the sources give, and are used only while they are of these."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baton.services.sim import compiled

WHY = "there are no compiled modules of these sources: make compiled"
is_made = pytest.mark.skipif(not compiled.is_fresh(), reason=WHY)
STUDY = ("--profile", "a100-opt13b-tp1", "--slo", "ttft=1s,itl=60ms", "--seeds", "1", "--jobs", "2")
LOAD = ("--synthetic", "num_requests=30 input_tokens=normal:512,200 output_tokens=normal:64,30")


def said(command: list[str], variable: str) -> tuple[str, str]:
    """What `baton` printed, and on the other stream."""
    environment = os.environ | {compiled.VARIABLE: variable}
    told = [sys.executable, "-m", "baton.services.cli.main", *command]
    done = subprocess.run(told, capture_output=True, text=True, env=environment, check=True)
    return done.stdout, done.stderr


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@is_made
def test_a_compiled_run_writes_the_same_files(tmp_path: Path) -> None:
    command = ["sim", "--scenario", "small", "--steps", "--set", "load.num_sessions=30", "--out"]
    plain, told_plain = said([*command, str(tmp_path / "plain")], "0")
    fast, told_fast = said([*command, str(tmp_path / "fast")], "1")
    assert fast.replace("/fast/", "/plain/") == plain
    assert (", compiled" in told_fast, ", compiled" in told_plain) == (True, False)
    found = files(tmp_path / "fast")
    assert len(found) == 6
    assert found == files(tmp_path / "plain")


@is_made
@pytest.mark.parametrize(
    "command",
    [
        ["sim", "--scenario", "launch_backpressure"],  # with parts of somebody else in place of ours
        ["sim", "--scenario", "small", "--set", "topology=2U", "--set", "unified.step_mode=alternate"],
        ["sim", "--scenario", "small", "--set", "topology=2U", "--set", "unified.step_mode=overlap"],
        ["sim", "--topology", "2P1D", "--profile", "a100-opt13b-tp1", "--trace", "sample", "--seed", "3"],
        ["compare", "--topology", "1P1D", "--rates", "1,4", *STUDY, *LOAD],  # in several processes
        ["tune", "--executors", "2", "--budget", "30", *STUDY, *LOAD],
    ],
    ids=lambda command: "-".join(command[:5:2]),
)
def test_compiled_runs_say_the_same(command: list[str]) -> None:
    assert said(command, "1")[0] == said(command, "0")[0]


def test_what_was_compiled_of_other_sources_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = tmp_path / "core"
    shutil.copytree(compiled.CORE / "kv", core / "kv")
    monkeypatch.setattr(compiled, "CORE", core)
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert not compiled.is_fresh()
    (tmp_path / compiled.STAMP).write_text(compiled.fingerprint())
    assert compiled.is_fresh()
    module = core / "kv" / "demand.py"
    module.write_text(module.read_text() + "\n")
    assert not compiled.is_fresh()
    module.write_text(module.read_text()[:-1])
    assert compiled.is_fresh()
    (core / "kv" / "new.toml").touch()
    assert not compiled.is_fresh()


def test_once_the_core_is_loaded_its_modules_stay() -> None:
    module = importlib.import_module("baton.core.executor.machine")
    assert not compiled.use_compiled()
    assert sys.modules["baton.core.executor.machine"] is module
