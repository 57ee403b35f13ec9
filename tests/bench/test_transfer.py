"""The benchmark of transfers runs, on real ends: types alone would not tell that it has been left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.transfer import TRANSPORTS, board_lines

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "transfer.py"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_few_pieces_give_every_figure(tmp_path: Path, transport: str) -> None:
    file = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--pieces", "4", "--transport", transport, "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    lines = list(board_lines(json.loads(file.read_text())))
    assert [line for line in lines if not line.ours or line.ours <= 0] == []
    assert len(lines) == 4
