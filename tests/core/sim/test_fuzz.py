"""Whole runs: they are a function of their seed, break no law, and their journals replay."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import msgspec
import pytest

from baton.core.journal import JournalHeader, JournalWriter, read_journal, replay
from baton.core.router.events import End
from baton.core.sim.draw import draw_scenario
from baton.core.sim.fuzz import Report, run, run_seed, shrink, tell_story
from baton.core.sim.scenario import Scenario
from baton.core.sim.wiring import Wiring

PRINT_DIGESTS = "from baton.core.sim.fuzz import run_seed\nprint([run_seed(seed).digest for seed in (1, 2, 3)])"


#: once: more attempts than the link to the scheduler held, so that each of its sessions ended with its first words
FOUND_LATER = (507553,)


@pytest.mark.parametrize("seed", [*range(24), *FOUND_LATER])
def test_a_seed_breaks_no_law(seed: int) -> None:
    report = run_seed(seed)
    assert report.is_good, f"{report.violation}\nbaton fuzz --seed {seed}"
    assert report.num_events > 100


def test_a_run_is_a_function_of_its_seed_whatever_the_hash_seed() -> None:
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", PRINT_DIGESTS], env=environment, capture_output=True, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_a_scenario_survives_its_encoding() -> None:
    scenario = draw_scenario(7)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(scenario), type=Scenario)
    assert run(again).digest == run(scenario).digest


class TwoEnds(Wiring):
    """Routers whose machine ends a request twice when its client has left."""

    def router(self, own):
        node = super().router(own)
        handle = node.machine.handle

        def twice(event, now):
            commands = handle(event, now)
            return [*commands, *[command for command in commands if isinstance(command, End) and command.error]]

        node.machine.handle = twice
        return node


def first_broken(wiring: type[Wiring]) -> Report:
    return next(report for report in (run_seed(seed, make_wiring=wiring) for seed in range(30)) if report.law)


def test_a_broken_machine_is_found_made_small_and_told() -> None:
    report = first_broken(TwoEnds)
    assert report.law == "one end"
    scenario, small = shrink(draw_scenario(report.seed), report.law, max_runs=25, make_wiring=TwoEnds)
    assert small.law == "one end"
    assert len(scenario.clients) <= len(draw_scenario(report.seed).clients)
    story = tell_story(scenario, make_wiring=TwoEnds)
    assert "one end" in story[-1]


@pytest.mark.parametrize("seed", [1, 6])
def test_every_process_of_a_run_replays_from_its_journal(seed: int) -> None:
    scenario = draw_scenario(seed)
    streams: dict[str, io.BytesIO] = {}
    writers: dict[str, JournalWriter] = {}
    makers: dict[str, object] = {}

    class Remembers(Wiring):
        def executor(self, own, spec):
            makers[f"{own.name}/{own.epoch}"] = lambda: Wiring.executor(self, own, spec)
            return super().executor(own, spec)

        def scheduler(self, own):
            makers[f"{own.name}/{own.epoch}"] = lambda: Wiring.scheduler(self, own)
            return super().scheduler(own)

        def router(self, own):
            makers[f"{own.name}/{own.epoch}"] = lambda: Wiring.router(self, own)
            return super().router(own)

    def record(process, now, event, commands) -> None:
        if process.identity not in makers:
            return
        if process.identity not in writers:
            stream = streams[process.identity] = io.BytesIO()
            header = JournalHeader(own=process.own, heartbeat_s=scenario.heartbeat_s, silence_s=scenario.silence_s)
            writers[process.identity] = JournalWriter(stream, header)
        writers[process.identity].record(now, event, commands)

    assert run(scenario, make_wiring=Remembers, record=record).is_good
    assert len(streams) >= 3
    for identity, stream in streams.items():
        header, turns = read_journal(io.BytesIO(stream.getvalue()))
        count, difference = replay(turns, makers[identity]())
        assert difference is None
        assert count > 0
        assert header.own.name in identity
