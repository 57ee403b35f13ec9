"""The `baton` command: what it offers works, and loads nothing that it does not need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from baton.services.cli.main import COMMANDS, EXIT_INTERRUPTED, EXIT_UNREAD, is_there, main


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
    assert main(["keys", str(tmp_path / "k"), "decode0", "decode1"]) == 0
    first, second, third = (line.removeprefix(f"{tmp_path / 'k'}: ") for line in capsys.readouterr().out.splitlines())
    assert (first, second) == ("new keys for decode0", "kept those of decode0")
    assert third == "new keys for decode1; kept those of decode0"
    assert main(["keys", str(tmp_path / "k"), "../evil"]) == 2


def test_the_router_and_the_scheduler_load_neither_torch_nor_the_transport() -> None:
    code = (
        "import sys; import baton.services.{}; sys.exit(bool({{'torch', 'nixl', 'transformers'}} & set(sys.modules)))"
    )
    for module in ("scheduler.service", "router.service", "cli.main", "up.supervisor"):
        subprocess.run([sys.executable, "-P", "-c", code.format(module)], check=True)


def test_the_version_is_that_of_the_installed_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"baton {version('baton-serve')}\n"


def run_planted(code: str, folder: Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """`baton planted`, whose module has this code."""
    (folder / "planted.py").write_text(code)
    script = "import sys; from baton.services.cli.main import COMMANDS, Command, main; "
    script += (
        "sys.path.insert(0, sys.argv[1]); COMMANDS['planted'] = Command('planted', ''); sys.exit(main(['planted']))"
    )
    how = {"stdout": subprocess.PIPE, **how}
    command = [sys.executable, "-P", "-c", script, str(folder)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **how)


INTERRUPT = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
SWALLOW = f"try:\n    exec({INTERRUPT!r})\nexcept BaseException:\n    pass\ndef main(_): print('went on')\n"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (f"def main(_):\n    exec({INTERRUPT!r})\n", EXIT_INTERRUPTED),
        (f"{INTERRUPT}def main(_): print('went on')\n", -signal.SIGINT),
        (SWALLOW, -signal.SIGINT),
    ],
    ids=["while it runs", "while it loads", "while a library loads that swallows it"],
)
def test_an_interrupt_ends_a_command_without_a_traceback(tmp_path: Path, code: str, exit_code: int) -> None:
    done = run_planted(code, tmp_path, preexec_fn=heed_interrupts)
    assert (done.returncode, done.stdout, done.stderr) == (exit_code, "", "")


def test_an_interrupt_that_is_ignored_stays_ignored_while_a_command_loads(tmp_path: Path) -> None:
    done = run_planted(INTERRUPT + "def main(_): print('went on')\n", tmp_path, preexec_fn=ignore_interrupts)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def heed_interrupts() -> None:
    """Whoever runs the tests in the background may have made them ignore interrupts, and a child inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_output_that_nobody_reads_ends_a_command_without_a_traceback(tmp_path: Path, size: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        done = run_planted(f"def main(_): print('x' * {size})", tmp_path, stdout=unread)
    assert (done.returncode, done.stderr) == (EXIT_UNREAD, "")


@pytest.mark.parametrize(
    ("size", "code", "told"),
    [(10, 0, "baton: No space left on device\n"), (10, 3, ""), (1_000_000, 3, "baton: No space left on device\n")],
    ids=["at its end", "at the end of one that has failed by itself", "in the middle"],
)
def test_a_full_output_ends_a_command_without_a_traceback(tmp_path: Path, size: int, code: int, told: str) -> None:
    planted = f"def main(_):\n    print('x' * {size})\n    return {code}\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = run_planted(planted, tmp_path, stdout=full, env=environment)
    assert (done.returncode, done.stderr) == (1 if told else code, told)
