"""All benchmarks, one board: question, ours, others', ratio, limit.

    python bench/board.py [--only SCRIPT]... [--quick] [--json FILE] [--against FILE [--anyway]] [--write DOCUMENT]
    python bench/board.py --read FILE [--against FILE] [--write DOCUMENT]

Runs every script of this folder that has a table, one after the other, others' systems where they are installed (see
bench/peers.md). `--against` compares with an earlier board; one of another machine, or of other settings, is refused
before anything runs, unless with `--anyway`. `--write` puts the board between the two marks of a document. Exit code 1
if a script failed, 2 if there is nothing to compare with or to write to.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.services.loadgen.results import describe_machine
from bench.board_lines import FORMAT_VERSION, Board, ScriptResult, differences
from bench.board_text import as_markdown, as_text, changes_text, replace_section
from bench.machine import family

ROOT = Path(__file__).resolve().parents[1]
SCRIPT_LIMIT_S = 3600.0
DEFAULT_JSON = ROOT / "build" / "bench" / "board.json"


class Script(NamedTuple):
    """One file of this folder, which has `board_lines` and takes `--json FILE`."""

    quick_flags: tuple[str, ...] = ()
    peers: tuple[tuple[str, str], ...] = ()  #: (flag, file under build/): given where the file is there

    def flags(self, is_quick: bool) -> list[str]:
        return list(self.quick_flags) if is_quick else []


DYNAMO = ("--dynamo-python", "dynamo-venv/bin/python")
VLLM = ("--vllm-python", "vllm-venv/bin/python")
VLLM_ROUTER = ("--vllm-router", "vllm-router-venv/bin/vllm-router")
SCRIPTS = {
    "control_plane": Script(
        quick_flags=("--rounds", "1", "--requests", "128", "--streams", "1,64"),
        peers=(DYNAMO,),
    ),
    "pd": Script(quick_flags=("--rounds", "1", "--requests", "16"), peers=(VLLM, VLLM_ROUTER)),
    "executor": Script(quick_flags=("--repeats", "1", "--budget-s", "20"), peers=(VLLM,)),
    "transfer": Script(quick_flags=("--pieces", "50")),
    "hot_paths": Script(),
    "simulator": Script(quick_flags=("--only", "where")),
}


class Failed(Exception):
    """What was asked for cannot be done; nothing was run."""


def run_script(name: str, is_quick: bool) -> ScriptResult:
    """Its table is printed as it comes. A script that fails has a line that says so instead of figures."""
    script = SCRIPTS[name]
    flags = script.flags(is_quick)
    peers = [(flag, ROOT / "build" / path) for flag, path in script.peers if (ROOT / "build" / path).exists()]
    print(f"\n{name} {' '.join([*flags, *(flag for flag, _ in peers)])}", flush=True)
    began_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), "--json", str(file), *flags]
        command += [text for flag, path in peers for text in (flag, str(path))]
        failure = _run(command)
        report = json.loads(file.read_text(encoding="utf-8")) if not failure else None
    lines = [] if failure else list(importlib.import_module(f"bench.{name}").board_lines(report))
    return ScriptResult(
        script=name,
        command=flags,
        peers=[flag.removeprefix("--") for flag, _ in peers],
        elapsed_s=round(time.monotonic() - began_at, 1),
        failure=failure,
        lines=lines,
        report=report,
    )


def _run(command: Sequence[str]) -> str:
    """Why it failed, or nothing."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            _, errors = process.communicate(timeout=SCRIPT_LIMIT_S)
        except subprocess.TimeoutExpired:
            end_family(process.pid)
            return f"ran past {SCRIPT_LIMIT_S:.0f} s"
    sys.stderr.write(errors)
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    return f"exit code {process.returncode}: {last[0]}" if process.returncode else ""


def end_family(pid: int) -> None:
    """The script, and the systems that it started: nobody else would end them, and they would disturb the next one."""
    for member in reversed(family(pid)):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def empty_board() -> Board:
    return Board(
        machine=describe_machine(),
        versions={"baton": version("baton-serve"), "python": platform.python_version()},
        began_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        load_before=round(os.getloadavg()[0], 2),
        results=[],
    )


def read_board(path: Path) -> Board:
    """Raises Failed."""
    try:
        board = msgspec.json.decode(path.read_bytes(), type=Board)
    except (OSError, msgspec.DecodeError) as error:
        raise Failed(f"{path} is no board: {error}") from error
    if board.format_version != FORMAT_VERSION:
        raise Failed(f"{path}: format {board.format_version}, this program reads {FORMAT_VERSION}")
    return board


def check_comparable(board: Board, before: Board, anyway: bool) -> None:
    """Raises Failed, or says why the two differ if they are compared anyway."""
    reasons = differences(board, before)
    if reasons and not anyway:
        raise Failed("the boards are not compared (--anyway does it):\n  " + "\n  ".join(reasons))
    for reason in reasons:
        print(f"compared anyway: {reason}")


def planned(names: Sequence[str], is_quick: bool, board: Board) -> Board:
    """The board that would be made: what it shares with an earlier one is known before anything runs."""
    found = [ScriptResult(script=name, command=SCRIPTS[name].flags(is_quick), elapsed_s=0.0) for name in names]
    return msgspec.structs.replace(board, results=found)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(SCRIPTS), metavar="SCRIPT", help=", ".join(SCRIPTS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and requests: to see that all works")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"{DEFAULT_JSON.relative_to(ROOT)} if not given")
    parser.add_argument("--read", type=Path, metavar="FILE", help="take this board instead of running anything")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with this earlier board")
    parser.add_argument("--anyway", action="store_true", help="compare although machine or settings differ")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="put the board between its marks")
    return parser.parse_args(arguments)


def work(asked: argparse.Namespace) -> Board:
    """Raises Failed, before anything runs."""
    names = asked.only or list(SCRIPTS)
    before = read_board(asked.against) if asked.against else None
    board = read_board(asked.read) if asked.read else empty_board()
    if before is not None:
        check_comparable(board if asked.read else planned(names, asked.quick, board), before, asked.anyway)
    if asked.write:
        replace_section(asked.write, None)
    if not asked.read:
        results = [run_script(name, asked.quick) for name in names]
        board = msgspec.structs.replace(board, results=results)
        file = asked.json or DEFAULT_JSON
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(board), indent=1) + b"\n")
        print(f"\n{file}")
    print(f"\n{as_text(board)}")
    if before is not None:
        print(f"\n{changes_text(board, before)}")
    if asked.write:
        replace_section(asked.write, as_markdown(board))
    return board


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        board = work(parse_arguments(arguments))
    except (Failed, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if any(result.failure for result in board.results) else 0


if __name__ == "__main__":
    sys.exit(main())
