"""Asking processes for their traces: where they are, what their clocks say, and what does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from baton.core.events import Note, Wake
from baton.core.ids import Peer, Role
from baton.core.trace.recorder import Recorder
from baton.services.runtime.admin import AdminPages
from baton.services.runtime.driver import Driver
from baton.services.runtime.metrics import Metrics
from baton.services.runtime.process import RunRecord
from baton.services.runtime.tracing import Tracing
from baton.services.trace import __main__ as command
from baton.services.trace.collect import (
    Exchange,
    NothingToTrace,
    Offset,
    best_offset,
    collect,
    newest_run_folder,
    offset_of,
    urls_in,
)
from tests.support.loops import run_on_uvloop


class Idle:
    next_wake: float | None = None

    def handle(self, event: Any, now: float) -> list[Any]:
        return [Note("tick", request_id=7)]

    def unfinished(self) -> list[Note]:
        return [Note("request ended", 7, numbers={"arrived_s": 1.0})]


async def served(recorder: Recorder | None) -> tuple[Any, int, Driver]:
    driver = Driver(Idle(), asyncio.get_running_loop(), lambda error: None, recorder=recorder)
    driver.perform(Note, lambda note: None)
    tracing = Tracing(Peer("router", Role.ROUTER, 5), Idle(), recorder)  # type: ignore[arg-type]
    runner, port = await AdminPages(driver, Metrics(), lambda: "", tracing=tracing).start(0)
    return runner, port, driver


def test_a_trace_is_asked_of_every_process_and_those_that_do_not_answer_are_named() -> None:
    async def story() -> None:
        runner, port, driver = await served(Recorder(10))
        driver.post(Wake())
        off, off_port, _ = await served(None)
        warnings: list[str] = []
        urls = [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{off_port}", "http://127.0.0.1:1"]
        (process,) = await collect(urls, 60.0, warnings.append)
        assert (process.name, process.role, process.offset_s, process.error_s) == ("router", "router", 0.0, 0.0)
        assert [record[2] for record in process.records] == ["tick"]
        assert [record[2] for record in process.unfinished] == ["request ended"]
        assert len(warnings) == 2
        assert "service.trace_events = 0" in warnings[0]
        assert "127.0.0.1:1: Connection refused" in warnings[1]
        with pytest.raises(NothingToTrace):
            await collect(urls[2:], 60.0, warnings.append)
        await runner.cleanup()
        await off.cleanup()

    run_on_uvloop(story())


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x"])
def test_only_a_positive_number_of_seconds_is_a_question(seconds: str) -> None:
    async def story() -> None:
        runner, port, _ = await served(Recorder(10))
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/trace?seconds={seconds}") as got:
            assert got.status == 400
        await runner.cleanup()

    run_on_uvloop(story())


@given(
    offset=st.floats(-1e4, 1e4),
    ways=st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 0.1)), min_size=1, max_size=20),
)
def test_h10_an_offset_is_never_wrong_by_more_than_it_says(offset: float, ways: list[tuple[float, float]]) -> None:
    exchanges = [Exchange(asked, asked + there + back, asked + there - offset) for asked, (there, back) in
                 zip(range(len(ways)), ways, strict=True)]
    found = best_offset(exchanges)
    assert abs(found.offset_s - offset) <= found.error_s + 1e-9
    assert found.error_s <= min(there + back for there, back in ways) / 2 + 1e-9


def test_h10_one_clock_needs_no_offset_unless_what_was_measured_contradicts() -> None:
    agreeing, contradicting = [Exchange(1.0, 1.002, 1.0015)], [Exchange(1.0, 1.002, 5.0)]
    assert offset_of(agreeing, has_same_clock=True) == Offset(0.0, 0.0)
    assert offset_of(agreeing, has_same_clock=False).error_s == pytest.approx(0.001)
    assert offset_of(contradicting, has_same_clock=True).offset_s == pytest.approx(-3.999)


def test_processes_are_found_where_they_said_that_they_are(tmp_path: Path) -> None:
    with pytest.raises(NothingToTrace):
        urls_in(tmp_path)
    for name, port in (("decode0", 4001), ("router", 4002), ("silent", 0)):
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(RunRecord(name, 1, 2, "", port)))
    (tmp_path / "other.json").write_text("{}")
    assert urls_in(tmp_path) == ["http://127.0.0.1:4001", "http://127.0.0.1:4002"]


def test_without_a_name_it_is_the_newest_deployment_of_this_machine(tmp_path: Path) -> None:
    with pytest.raises(NothingToTrace, match="--run-folder"):
        newest_run_folder(tmp_path)
    (tmp_path / "baton-up-12-abc").mkdir()
    assert newest_run_folder(tmp_path).name == "baton-up-12-abc"


def test_where_nothing_answers_the_command_says_so_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trace.json"
    assert command.main(["--run-folder", str(tmp_path), "--out", str(out)]) == command.EXIT_NOTHING
    assert "no process has said" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_says_how_far_back_each_process_remembers() -> None:
    recorder = Recorder(2)
    for index in range(9):
        recorder.turn(Wake(), [Note("tick")], 91.0 + index, 91.0 + index)
    process = command.ProcessTrace(
        "decode", "decode", 100.0, recorder.since(0.0), offset_s=0.002, error_s=1e-4, num_forgotten=7
    )
    told = "2 records of the last 2.0 s, older ones are forgotten (service.trace_events)"
    assert command.summary(process, 10.0) == f"{told}; clock +2000 µs, known to 100 µs"
