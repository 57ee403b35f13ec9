"""The page's files are part of what is installed, small, and all in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from baton.services.loadgen.html.page import SCRIPTS, STYLES

ROOT = Path(__file__).resolve().parents[4]
FOLDER = Path("services/loadgen/html")
MAX_LINES = 400


def test_an_installation_has_every_file_of_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sources = {path.name: path.read_bytes() for path in (ROOT / FOLDER).iterdir() if path.is_file()}
    assert {"page.html", *STYLES, *SCRIPTS} == {name for name in sources if not name.endswith(".py")}
    for name, data in sources.items():
        assert (tmp_path / "baton" / FOLDER / name).read_bytes() == data, name
        assert len(data.splitlines()) <= MAX_LINES, name
