"""Schemathesis against a served document: thousands of requests made from it, every answer checked against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: our own say more than the first two; the others are about resources that are made
LEFT_OUT = (
    "positive_data_acceptance,not_a_server_error,"
    "use_after_free,ensure_resource_availability,object_level_authorization"
)
REQUEST_LIMIT_S = 30  #: of one request, so that nothing hangs


class Cases(NamedTuple):
    """What a run made of the document."""

    code: int
    output: str
    num_operations: int  #: tested
    num_cases: int
    num_failures: int  #: that differ

    @property
    def is_good(self) -> bool:
        return self.code == 0 and self.num_failures == 0 and self.num_cases > 0


def run_cases(
    url: str, folder: Path, *, phases: str, max_examples: int, limit_s: float, key: str = "", seed: int | None = None
) -> Cases:
    """Without a seed the cases are the same each time. `folder` takes the report."""
    report = folder / "report.json"
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"),
        *("--checks", "all", "--exclude-checks", LEFT_OUT, "--continue-on-failure"),
        *("--phases", phases, "--max-examples", str(max_examples), "--request-timeout", str(REQUEST_LIMIT_S)),
        *("--report", "json", "--report-json-path", str(report)),
        *(("--generation-deterministic",) if seed is None else ("--seed", str(seed), "--generation-database", "none")),
        *(("--header", f"Authorization: Bearer {key}") if key else ()),
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.support.openapi_checks", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | hooks,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    if not report.is_file():
        return Cases(done.returncode, done.stdout, 0, 0, 0)
    told = json.loads(report.read_text(encoding="utf-8"))
    cases = told["test_cases"]
    return Cases(
        done.returncode, done.stdout, told["operations"]["tested"], cases["generated"], cases["unique_failures"]
    )
