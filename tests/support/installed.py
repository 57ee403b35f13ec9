"""What an installation of this project has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def installed_files(folder: str, into: Path) -> dict[str, bytes]:
    """The files of a folder of the sources, by name; an installation, made in `into`, has each of them."""
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(into)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sources = {path.name: path.read_bytes() for path in (ROOT / folder).iterdir() if path.is_file()}
    for name, data in sources.items():
        assert (into / "baton" / folder / name).read_bytes() == data, name
    return sources
