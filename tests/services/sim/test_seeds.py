"""`baton sim` with several seeds, and interrupted."""

from __future__ import annotations

import csv
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.core.metrics.intervals import estimate
from baton.core.metrics.report import Report, decode_facts, decode_report
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.services.loadgen.comparing import main as compare
from baton.services.loadgen.interrupts import EXIT_INTERRUPTED
from baton.services.sim.load import load_of
from baton.services.sim.run import EXIT_REFUSED, main
from baton.services.sim.run_flags import parse, table_of
from baton.services.sim.seeds import depends_on_seed
from baton.services.sim.stopping import Stopping

RECORDED = ("--topology", "1U", "--profile", "a100-opt13b-tp1", "--trace", "sample")
QUICK = ("--scenario", "small", "--set", "load.num_sessions=4")
INTERRUPTED = ("--set", "parts=tests.services.sim.interrupting:make", "--set")


@pytest.fixture(autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """Also where a shell has started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(folder: Path, *arguments: str) -> Report:
    assert main([*QUICK, *arguments, "--out", str(folder)]) == 0
    return decode_report((folder / "report.json").read_bytes())


def test_figures_over_seeds_are_those_of_the_single_runs(tmp_path: Path) -> None:
    together = run(tmp_path / "all", "--seed", "5", "--seeds", "3")
    alone = [run(tmp_path / str(seed), "--seed", str(seed)) for seed in (5, 6, 7)]
    assert together.summary == alone[0].summary
    assert together.run == alone[0].run
    for figure, statistic in (("ttft_s", "p50"), ("itl_s", "p99"), ("e2e_s", "p95")):
        values = [getattr(report.summary.distributions[figure], statistic) for report in alone]
        assert together.intervals[f"{figure}.{statistic}"] == estimate(values)
    rates = [report.summary.throughput.output_tokens_per_s or 0.0 for report in alone]
    assert together.intervals["output_tokens_per_s"] == estimate(rates)


def test_intervals_are_on_the_terminal_in_the_table_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run(tmp_path / "a", "--seeds", "2")
    out = capsys.readouterr().out
    assert "95 % intervals over 2 seeds" in out
    assert "2 runs tell little" in out
    assert any("2 runs tell little" in warning for warning in report.warnings)
    assert all(each.low is not None and each.low >= 0.0 for each in report.intervals.values())
    assert report.intervals["goodput.share"].high is not None
    assert report.intervals["goodput.share"].high <= 1.0
    with (tmp_path / "a" / "summary.csv").open(newline="") as lines:
        found = {(row["figure"], row["statistic"]): row["value"] for row in csv.DictReader(lines)}
    assert float(found["ttft_s.p95", "low"]) == report.intervals["ttft_s.p95"].low
    assert '"intervals":{"ttft_s.p50":{' in (tmp_path / "a" / "report.html").read_text()
    assert compare([str(tmp_path / "a"), str(tmp_path / "a")]) == 0


def test_a_single_run_tells_how_much_its_parts_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a"
    assert main(["--scenario", "small", "--set", "load.num_sessions=20", "--out", str(folder)]) == 0
    assert "95 % intervals within this run" in capsys.readouterr().out
    intervals = decode_report((folder / "report.json").read_bytes()).intervals
    assert intervals["ttft_s.p50"].num_runs == 1
    assert intervals["ttft_s.p50"].low is not None
    assert "output_tokens_per_s" not in intervals


def test_seeds_that_change_nothing_are_one_run_and_its_parts_tell_the_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--set", "load.num_requests=40", "--set", "load.speed=4"]
    assert main([*RECORDED, *few, "--out", str(tmp_path / "one")]) == 0
    assert "depends on the seed" not in capsys.readouterr().out
    assert main([*RECORDED, *few, "--seeds", "3", "--out", str(tmp_path / "three")]) == 0
    shown = capsys.readouterr().out
    assert "note: nothing in this run depends on the seed, so 3 seeds are one run" in shown
    assert "95 % intervals within this run" in shown
    one, three = [decode_report((tmp_path / name / "report.json").read_bytes()) for name in ("one", "three")]
    assert three.intervals == one.intervals
    assert three.intervals["ttft_s.p50"].half_share


@pytest.mark.parametrize(
    ("arguments", "depends"),
    [
        ([*RECORDED], False),
        ([*RECORDED, "--set", "load.rate=2"], True),
        ([*RECORDED, "--set", "load.rate=2", "--set", "load.seed=3"], False),
        ([*RECORDED, "--set", "profile=cpu-smollm2"], True),
        ([*RECORDED, "--set", "parts=tests.services.sim.interrupting:make"], True),
        (["--scenario", "small"], True),
    ],
)
def test_what_a_seed_draws_is_known_before_a_run(arguments: list[str], depends: bool) -> None:
    scenario = make_scenario(table_of(parse(arguments)))
    assert depends_on_seed(scenario, scenario.fleet(), load_of(scenario).plan) is depends


def test_seeds_of_arms_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "idle_overlap", "--seeds", "2"]) == EXIT_REFUSED
    assert "--seeds" in capsys.readouterr().err


def test_an_interrupted_run_tells_what_had_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = [*QUICK, *INTERRUPTED, "parts_settings.after=150", "--seeds", "3", "--out", str(tmp_path)]
    assert main(told) == EXIT_INTERRUPTED
    report = decode_report((tmp_path / "report.json").read_bytes())
    counts = report.summary.counts
    assert counts.planned == 12
    assert 0 < counts.succeeded < 12
    assert counts.failures["unsent"] + counts.cut_short + counts.succeeded == 12
    assert counts.cut_short
    assert report.summary.degraded
    with (tmp_path / "requests.jsonl").open("rb") as lines:
        assert len(list(decode_facts(lines))) == 12
    assert "interrupted: what had ended by then is told" in capsys.readouterr().err


def test_an_interrupted_seed_leaves_those_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "whole", "--seed", "1", "--steps")
    num_steps = len((tmp_path / "whole" / "steps.jsonl").read_text().splitlines())
    at = f"parts_settings.after={num_steps + 1}"  # launches are counted anew in each run
    told = [*QUICK, "--seed", "1", *INTERRUPTED, at, "--out", str(tmp_path / "cut")]
    assert main([*told, "--seeds", "1"]) == 0
    (tmp_path / "cut").rename(tmp_path / "one")
    assert main([*told, "--seeds", "2"]) == EXIT_INTERRUPTED
    assert "1 of 2 seeds were run to their end" in capsys.readouterr().err
    one, cut = [decode_report((tmp_path / name / "report.json").read_bytes()) for name in ("one", "cut")]
    assert cut == one


def test_the_first_interrupt_asks_and_the_second_ends() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopping() as stopping:
        assert not stopping.is_asked
        signal.raise_signal(signal.SIGINT)
        assert stopping.is_asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
