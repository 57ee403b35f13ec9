"""The process that checks grammars, by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from baton.services.model.fetch import fetch


def test_it_ends_without_a_word_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-P", "-m", "baton.services.grammar.check_process", str(fetch("tiny", tmp_path)), "1"]
    with os.fdopen(writing, "wb") as unread:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=unread, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")
