"""Run folders of launchers that were killed hold keys: the next start removes them, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from baton.services.up.supervisor import RUN_PREFIX, remove_left_folders


def test_only_folders_of_dead_launchers_are_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f"{RUN_PREFIX}{dead.pid}-abc"
    kept = [tmp_path / f"{RUN_PREFIX}{os.getpid()}-abc", tmp_path / f"{RUN_PREFIX}notes-abc", tmp_path / "other-1-a"]
    for folder in (left, *kept):
        (folder / "keys").mkdir(parents=True)
    remove_left_folders(tmp_path)
    assert not left.exists()
    assert all(folder.exists() for folder in kept)
