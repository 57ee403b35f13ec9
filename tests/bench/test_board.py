"""The runner: one file for all scripts, refusals before anything runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench import board
from bench.board_lines import Board, Line, ScriptResult
from bench.board_text import BEGIN, END
from tests.support.boards import MACHINE, board_of

RAN = ScriptResult(script="pd", command=[], elapsed_s=1.0, lines=[Line("delay", "ms", False, 2.0)])
FAILED = ScriptResult(script="pd", command=[], elapsed_s=1.0, failure="exit code 1: no memory")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the scripts that ran; they only pretend to."""
    names: list[str] = []

    def run_script(name: str, is_quick: bool) -> ScriptResult:
        names.append(name)
        return msgspec.structs.replace(RAN, script=name, command=board.SCRIPTS[name].flags(is_quick))

    monkeypatch.setattr(board, "run_script", run_script)
    monkeypatch.setattr(board, "describe_machine", lambda: MACHINE)
    return names


def write(path: Path, made: Board) -> str:
    path.write_bytes(msgspec.json.encode(made))
    return str(path)


def test_all_scripts_run_and_the_file_is_a_board_again(tmp_path: Path, ran: list[str]):
    file = tmp_path / "new" / "board.json"
    assert board.main(["--json", str(file)]) == 0
    assert ran == list(board.SCRIPTS)
    found = board.read_board(file)
    assert [result.script for result in found.results] == ran
    assert found.machine == MACHINE


def test_only_what_is_asked_for_runs(tmp_path: Path, ran: list[str]):
    assert board.main(["--only", "transfer", "--json", str(tmp_path / "board.json")]) == 0
    assert ran == ["transfer"]


def test_another_machine_is_refused_before_anything_runs(
    tmp_path: Path, ran: list[str], capsys: pytest.CaptureFixture[str]
):
    before = write(tmp_path / "before.json", msgspec.structs.replace(board_of(RAN), machine={"cores": 64}))
    asked = ["--only", "pd", "--json", str(tmp_path / "board.json"), "--against", before]
    assert board.main(asked) == 2
    assert ran == []
    assert "cores is 2, was 64" in capsys.readouterr().err
    assert board.main([*asked, "--anyway"]) == 0
    out = capsys.readouterr().out
    assert "compared anyway: machines differ: cores" in out
    assert "pd: delay" in out.partition("against the board of")[2]


def test_a_quick_board_is_not_compared_with_a_whole_one(tmp_path: Path, ran: list[str]):
    before = write(tmp_path / "before.json", board_of(RAN))
    assert board.main(["--quick", "--only", "pd", "--json", str(tmp_path / "b.json"), "--against", before]) == 2
    assert ran == []


@pytest.mark.parametrize("data", [b"", b"{}", b"[1"])
def test_what_is_no_board_is_refused(tmp_path: Path, ran: list[str], data: bytes):
    (tmp_path / "before.json").write_bytes(data)
    assert board.main(["--only", "pd", "--against", str(tmp_path / "before.json")]) == 2
    assert ran == []


def test_another_format_is_refused(tmp_path: Path):
    path = tmp_path / "board.json"
    write(path, msgspec.structs.replace(board_of(), format_version=0))
    with pytest.raises(board.Failed, match="format 0"):
        board.read_board(path)


def test_a_board_that_was_read_is_written_into_a_document(tmp_path: Path, ran: list[str]):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    assert board.main(["--read", write(tmp_path / "b.json", board_of(RAN)), "--write", str(page)]) == 0
    assert ran == []
    assert "| delay | ms | 2 |" in page.read_text()


def test_a_document_without_marks_is_refused_before_anything_runs(tmp_path: Path, ran: list[str]):
    (tmp_path / "page.md").write_text("nothing\n")
    assert board.main(["--only", "pd", "--write", str(tmp_path / "page.md")]) == 2
    assert ran == []


def test_a_failed_script_is_an_exit_code(tmp_path: Path):
    assert board.main(["--read", write(tmp_path / "b.json", board_of(FAILED, RAN))]) == 1


def test_a_script_that_ends_badly_tells_its_last_line(capfd: pytest.CaptureFixture[str]):
    why = board._run([sys.executable, "-c", "import sys; sys.exit('first\\nno memory')"])
    assert why == "exit code 1: no memory"
    assert "first" in capfd.readouterr().err
    assert board._run([sys.executable, "-c", ""]) == ""


def test_a_script_that_is_ended_leaves_nothing_that_it_started():
    starts = "import subprocess as s; c = s.Popen(['cat'], stdin=-1, start_new_session=True); print(c.pid); c.wait()"
    with subprocess.Popen([sys.executable, "-uc", starts], stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        child = int(script.stdout.readline())
        board.end_family(script.pid)
        assert script.wait() == -signal.SIGKILL
    while is_running(child):
        os.sched_yield()


def is_running(pid: int) -> bool:
    """Not there, or ended and not yet looked at by whoever adopted it: no."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
