"""`baton fuzz` and `baton replay` as a user calls them."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest

from baton.core.config import ExecutorConfig
from baton.core.ids import Role
from baton.core.journal import JournalHeader, JournalWriter
from baton.core.sim.draw import draw_scenario
from baton.core.sim.fuzz import run
from baton.core.sim.memory import sim_layout
from baton.core.sim.scenario import Scenario
from baton.services.sim.fuzz import main as fuzz
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


def executor_header(scenario: Scenario, name: str, own: object) -> JournalHeader:
    config: ExecutorConfig = next(spec.config for spec in scenario.executors if spec.name == name)
    return JournalHeader(
        own=own,  # type: ignore[arg-type]
        heartbeat_s=scenario.heartbeat_s,
        silence_s=scenario.silence_s,
        executor=config,
        layout=sim_layout(scenario.block_size, scenario.num_kv_layers),
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
