"""`baton fuzz` and `baton replay` as a user calls them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from baton.core.config import ExecutorConfig
from baton.core.ids import Role
from baton.core.journal import JournalHeader, JournalWriter
from baton.core.sim.draw import draw_scenario
from baton.core.sim.fuzz import run
from baton.core.sim.memory import sim_layout
from baton.core.sim.scenario import Scenario
from baton.services.sim.fuzz import EXIT_INTERRUPTED
from baton.services.sim.fuzz import main as fuzz
from baton.services.sim.fuzz_flags import CATALOG
from baton.services.sim.replay import main as replay


def test_a_search_over_seeds_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz(["--seeds", "0..2", "--coverage"]) == 0
    out = capsys.readouterr().out
    assert "3 seeds" in out
    assert "0 violations" in out
    assert "requests complete" in out


def test_one_seed_prints_its_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz(["--seed", "3"]) == 0
    assert "digest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--jobs 0", "--jobs: '0'"),
        ("--jobs x", "--jobs: 'x'"),
        ("--patience 0", "--patience: '0'"),
        ("--check-every 0", "--check-every: '0'"),
        ("--seconds nan", "--seconds: 'nan'"),
        ("--seconds -1", "--seconds: '-1'"),
        ("--seeds 5..1", "--seeds: '5..1' holds no seed"),
        ("--seeds 5..", "--seeds: '5..' is no range"),
        ("--seeds x", "--seeds: 'x' is no range"),
        ("--seed 1 --seeds 1..2", "--seeds: not allowed with argument --seed"),
        ("--mutant double_fre", "--mutant double_fre: {} has no defect of this name; near it: double_free"),
        ("--mutant x --catalog /nonexistent", "--mutant x: there is no /nonexistent"),
        ("--mutant x --catalog /dev/null", "--mutant x: /dev/null is no catalog"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_and_the_flag_named(
    capsys: pytest.CaptureFixture[str], flags: str, told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        fuzz(flags.split())
    assert ended.value.code == 2
    assert told.format(CATALOG) in capsys.readouterr().err.splitlines()[-1]


def run_fuzz(*flags: str, **how: Any) -> subprocess.Popen[str]:
    """In a process of its own, since a planted defect stays; not where the catalog lies."""
    command = [sys.executable, "-P", "-m", "baton.services.cli.main", "fuzz", *flags]
    return subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def test_a_search_finds_the_catalog_from_anywhere_and_ends_with_as_many_violations_as_asked_for() -> None:
    for jobs in ("1", "2"):
        with run_fuzz("--mutant", "double_free", "--seeds", "0..19", "--patience", "2", "--jobs", jobs) as process:
            out, errors = process.communicate(timeout=100)
            assert (process.returncode, errors) == (1, "")
            assert ", 2 violations" in out
            assert sum(line.startswith("seed ") for line in out.splitlines()) == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_search_says_what_it_has_done_and_no_traceback(jobs: str) -> None:
    flags = ["--mutant", "double_free", "--seconds", "1000", "--patience", "1000000", "--jobs", jobs]
    with run_fuzz(*flags, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seed ")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        out, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (EXIT_INTERRUPTED, "")
    assert re.search(r"^\d+ seeds, .* violations$", out, re.MULTILINE)


@pytest.mark.parametrize("content", [None, b"", b"x" * 15, b"00" * 15, b"00" * 17, b"root:x:0:0\n" * 30, b"\xff" * 32])
def test_a_hash_key_that_is_none_is_refused_and_the_flag_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        replay([str(tmp_path / "x.journal"), "--hash-key", str(tmp_path / "key")])
    assert ended.value.code == 2
    assert f"--hash-key: {tmp_path / 'key'}" in capsys.readouterr().err.splitlines()[-1]


def test_a_difference_under_a_wrong_hash_key_says_that_the_key_may_be_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (executor,) = (path for path in write_journals(tmp_path, draw_scenario(3)) if path.name == "unified0-1.journal")
    key = tmp_path / "hash.key"
    key.write_text("ab" * 16 + "\n")
    assert replay([str(executor), "--hash-key", str(key)]) == 1
    assert "is it the one of --hash-key?" in capsys.readouterr().out
    key.write_bytes(bytes(range(16)))
    assert replay([str(executor), "--hash-key", str(key)]) == 0


def executor_header(scenario: Scenario, name: str, own: object) -> JournalHeader:
    config: ExecutorConfig = next(spec.config for spec in scenario.executors if spec.name == name)
    return JournalHeader(
        own=own,  # type: ignore[arg-type]
        heartbeat_s=scenario.heartbeat_s,
        silence_s=scenario.silence_s,
        executor=config,
        layout=sim_layout(scenario.block_size, scenario.num_kv_layers, scenario.checkpoint_blocks),
    )


def write_journals(folder: Path, scenario: Scenario) -> list[Path]:
    """One journal for each life of every process but the launcher."""
    writers: dict[str, JournalWriter] = {}
    streams = []

    def header(process) -> JournalHeader:
        if process.role.is_executor:
            return executor_header(scenario, process.name, process.own)
        is_router = process.role is Role.ROUTER
        return JournalHeader(
            own=process.own,
            heartbeat_s=scenario.heartbeat_s,
            silence_s=scenario.silence_s,
            router=scenario.router if is_router else None,
            scheduler=None if is_router else scenario.scheduler,
        )

    def record(process, now, event, commands) -> None:
        if process.role is Role.LAUNCHER:
            return
        if process.identity not in writers:
            path = folder / f"{process.name}-{process.own.epoch}.journal"
            streams.append(path.open("wb"))
            writers[process.identity] = JournalWriter(streams[-1], header(process))
        writers[process.identity].record(now, event, commands)

    assert run(scenario, record=record).is_good
    for stream in streams:
        stream.close()
    return sorted(folder.iterdir())


def test_journals_of_a_simulated_run_replay_and_a_changed_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_journals(tmp_path, draw_scenario(2))
    assert replay([str(path) for path in paths]) == 0
    assert "turns agree" in capsys.readouterr().out
    executor = next(path for path in paths if path.name.startswith(("decode", "unified")))
    data = executor.read_bytes()
    said = data.index(b"sim://scheduler")
    answered = data.index(b"sim://scheduler", said + 1)
    executor.write_bytes(data[:answered] + b"tim://scheduler" + data[answered + 15 :])
    assert replay([str(executor)]) == 1
    assert "turn 0" in capsys.readouterr().out


def test_an_empty_journal_and_one_that_was_cut_off_are_notes_and_no_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = next(path for path in write_journals(tmp_path, draw_scenario(2)) if path.name.startswith("decode"))
    data = executor.read_bytes()
    starts = record_starts(data)
    whole = starts[5]  # a header and four turns
    for cut, said in [
        (0, "empty"),
        (1, "ends in the middle of its header"),
        (starts[1] - 1, "ends in the middle of its header"),
        (whole, "4 turns agree\n"),
        *((at, "4 turns agree, ends in the middle of a turn") for at in range(whole + 1, starts[6])),
    ]:
        executor.write_bytes(data[:cut])
        assert replay([str(executor)]) == 0, cut
        assert said in capsys.readouterr().out, cut


def test_a_journal_with_a_wrong_length_in_its_middle_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = next(path for path in write_journals(tmp_path, draw_scenario(2)) if path.name.startswith("decode"))
    data = executor.read_bytes()
    event_at = record_starts(data)[5] + 10  # behind the array's head and the time
    assert data[event_at] == 0xC4
    long = b"\xc6" + (1 << 20).to_bytes(4, "big")  # more than the file has
    executor.write_bytes(data[:event_at] + long + data[event_at + 2 :])
    assert replay([str(executor)]) == 2
    assert "broken record" in capsys.readouterr().err
    executor.write_bytes(data[: event_at - 10] + b"\xc1" + data[event_at - 9 :])
    assert replay([str(executor)]) == 2
    assert "broken record" in capsys.readouterr().err


def record_starts(data: bytes) -> list[int]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    starts = [0]
    for _ in range(8):
        unpacker.skip()
        starts.append(unpacker.tell())
    return starts


def test_what_is_no_journal_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.journal"
    path.write_bytes(b"\x00")
    assert replay([str(path)]) == 2
    assert "no journal" in capsys.readouterr().err
