"""aiperf in its own environment: a tokenizer that it finds offline, one profile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.accept.commands import Done, run
from tests.support.environment import AIPERF

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")
TOKENIZER_NAME = "local/served"


def write_tokenizer(model: Path, home: Path) -> None:
    """A hub cache under `home` in which the model's tokenizer has TOKENIZER_NAME."""
    folder = home / "hub" / f"models--{TOKENIZER_NAME.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("served")
    snapshot = folder / "snapshots" / "served"
    snapshot.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        if (model / name).is_file():
            shutil.copy(model / name, snapshot / name)


def profile(url: str, served_name: str, folder: Path, flags: tuple[str, ...], limit_s: float) -> Done:
    """Run `aiperf profile` against a server; its artifacts go to `folder`/artifacts, its hub cache is `folder`/home."""
    command = [AIPERF.program("aiperf"), "profile", "--model", served_name, "--url", url]
    command += ["--tokenizer", TOKENIZER_NAME, "--artifact-dir", str(folder / "artifacts"), "--ui-type", "none"]
    command += ["--workers-max", "1", "--record-processor-service-count", "1"]
    command += ["--no-server-metrics", "--no-gpu-telemetry", *flags]
    environment = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    return run(command, limit_s, environment, folder)


def read_report(folder: Path) -> dict[str, Any]:
    """The exported JSON of a profile."""
    path = next((folder / "artifacts").rglob("profile_export_aiperf.json"))
    return dict(json.loads(path.read_text()))
