"""The `baton` command: what it offers works, and loads nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from baton.services.cli.main import COMMANDS, is_there, main


def test_every_offered_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in COMMANDS.items():
        if is_there(command):
            with pytest.raises(SystemExit) as ended:
                main([name, "--help"])
            assert ended.value.code == 0
            assert f"baton {name}" in capsys.readouterr().out


def test_an_unknown_command_is_refused_and_the_known_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 2
    assert "scheduler" in capsys.readouterr().err


def test_keys_are_made_and_then_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", str(tmp_path / "k"), "decode0"]) == 0
    assert main(["keys", str(tmp_path / "k"), "decode0"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("new keys for nobody")
    assert main(["keys", str(tmp_path / "k"), "../evil"]) == 2


def test_the_router_and_the_scheduler_load_neither_torch_nor_the_transport() -> None:
    code = (
        "import sys; import baton.services.{}; sys.exit(bool({{'torch', 'nixl', 'transformers'}} & set(sys.modules)))"
    )
    for module in ("scheduler.service", "router.service", "cli.main", "up.supervisor"):
        subprocess.run([sys.executable, "-P", "-c", code.format(module)], check=True)
