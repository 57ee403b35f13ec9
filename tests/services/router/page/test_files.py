"""The built-in page's files are part of what is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from baton.services.router.http.builtin_page import FILES

ROOT = Path(__file__).resolve().parents[4]
FOLDER = Path("services/router/page")


def test_an_installation_has_every_file_of_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sources = {path.name: path.read_bytes() for path in (ROOT / FOLDER).iterdir() if path.is_file()}
    assert {file for file, *_ in FILES.values()} <= sources.keys()
    for name, data in sources.items():
        assert (tmp_path / "baton" / FOLDER / name).read_bytes() == data, name
