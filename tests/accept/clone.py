"""From `git clone` to the first answer, with a warm package cache."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.accept.commands import ROOT, run
from tests.accept.deployment import Deployment, post
from tests.accept.row import Options, Row, cannot_run, judged

AIM_S = 300.0
LIMIT_S = 900.0
ASKED = f"git clone, `make install` and `baton up` give the first answer within {AIM_S:.0f} s (warm package cache)"


def measure(options: Options) -> Row:
    if not options.full:
        return cannot_run(ASKED, "only with --full: it installs everything again")
    started_at = time.monotonic()
    with TemporaryDirectory(prefix="accept-") as name:
        clone = Path(name) / "clone"
        for command in (["git", "clone", "-q", str(ROOT), str(clone)], ["make", "-C", str(clone), "install"]):
            done = run(command, LIMIT_S, folder=Path(name))
            if done.code != 0:
                return judged(ASKED, f"{command[0]} failed: {done.last_line}", False)
        installed_s = time.monotonic() - started_at
        baton = (str(clone / ".venv" / "bin" / "baton"),)
        with Deployment(command=baton, folder=clone) as up:
            body = {"model": up.model, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
            text = post(f"{up.url}/v1/completions", body)["choices"][0]["text"]
            answered_s = time.monotonic() - started_at
    measured = f"{answered_s:.0f} s, {installed_s:.0f} s of them to install; the answer: {text.strip()!r}"
    return judged(ASKED, measured, answered_s < AIM_S, answered_s=answered_s, installed_s=installed_s)
