"""`baton compare` on real machines with published step times: who is better, why, and what is wrong with a command."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from baton.services.sim.compare import FILES, main, parse, plain_table
from baton.services.sim.run import EXIT_FAILED, EXIT_REFUSED
from baton.services.sim.run_flags import BadCommand

A100 = ("--profile", "a100-opt13b-tp1", "--set", "executor.piece_bytes=67108864")


def compared(folder: Path, *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--jobs", "1", "--out", str(folder)]) == 0
    found: dict[str, object] = json.loads((folder / "compare.json").read_text())
    return found


def test_unbalanced_pd_loses_to_as_many_replicas_and_it_is_said_why(tmp_path: Path) -> None:
    """Short prompts and long answers on published H100 step times: the prefill executor has little to do, and all
    answers decode on the other one."""
    load = "num_requests=160 input_tokens=128 output_tokens=200"
    told = ("--topology", "1P1D", "--profile", "h100-llama70b-tp8", "--slo", "tpot=49ms", "--rates", "8")
    found = compared(tmp_path, *told, "--seeds", "1", "--synthetic", load)
    verdict = found["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["sentence"].startswith("2U serves more good requests than 1P1D at 8 requests/s")
    assert "prefill executor is idle" in verdict["reason"]
    assert verdict["better"] == [{"from": 8.0, "to": 8.0, "name": "2U"}]


def test_pd_wins_where_prompts_would_hold_up_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = "num_requests=40 input_tokens=normal:700,100,400-1000 output_tokens=60"
    told = ("--topology", "1P1D", "--slo", "ttft=2s,itl=80ms", "--rates", "1,4", "--synthetic", load)
    found = compared(tmp_path, *A100, *told, "--seeds", "2")
    verdict = found["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["better"][-1]["name"] == "1P1D"
    assert "prompts share its steps" in verdict["reason"]
    out = capsys.readouterr().out
    assert verdict["sentence"] in out
    assert "executor s" in out
    assert "…" not in out
    assert "2 seeds: 95 % intervals are over them (2 runs tell little" in out
    assert found["settings"][0]["topology"] == "1P1D"
    assert not any(name == "load.rate" for settings in found["settings"] for name in settings)
    with (tmp_path / "compare.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["deployment"] for row in rows} == {"1P1D", "2U"}
    assert all(float(row["low"]) >= 0.0 for row in rows)
    assert all(float(row["high"]) <= 1.0 for row in rows if row["figure"] == "share")
    shown = {figure: row for row in rows if (figure := row["figure"]) and row["deployment"] == "2U"}
    assert float(shown["share"]["high"]) > float(shown["share"]["value"])  # two seeds are far apart
    assert {float(row["rate"]) for row in rows} == {1.0, 4.0}
    assert {"good_per_s", "share", "ttft_s.p99", "itl_s.p50"} <= {row["figure"] for row in rows}
    assert (tmp_path / "compare.html").read_text().startswith("<!doctype html>")


def test_rates_are_found_and_the_same_with_more_processes(tmp_path: Path) -> None:
    load = ("--synthetic", "num_requests=24 input_tokens=200 output_tokens=6", "--slo", "ttft=100ms")
    for name, jobs in (("a", "1"), ("b", "2")):
        arguments = ["--topology", "1P1D", *A100, *load, "--seeds", "1", "--jobs", jobs]
        assert main([*arguments, "--out", str(tmp_path / name)]) == 0
    for file in ("compare.json", "compare.csv", "compare.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    found = json.loads((tmp_path / "a" / "compare.json").read_text())
    assert len(found["points"]) == 7
    assert found["points"][0]["first"]["figures"]["share"]["value"] > 0.9
    assert found["points"][-1]["second"]["figures"]["share"]["value"] < 0.5


def test_a_trace_is_varied_in_its_speed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    row = '{"timestamp": %d, "input_length": 600, "output_length": 4, "hash_ids": [1, %d]}\n'
    trace.write_text("".join(row % (500 * n, 10 + n) for n in range(24)))
    told = ["--topology", "1P1D", *A100, "--trace", str(trace), "--slo", "ttft=200ms", "--rates", "1,8", "--jobs", "1"]
    assert main([*told, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert found["rate_unit"] == "× the trace's speed"
    assert found["seeds"] == [0]
    assert found["points"][0]["first"]["figures"]["good_per_s"]["low"] is not None


def test_up_to_which_rate_is_told_of_measured_rates(capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve prompts of 59 ms on one executor, the last of which waits too long when they come at once."""
    load = ("--synthetic", "num_requests=12 input_tokens=400 output_tokens=2", "--slo", "ttft=250ms", "--seeds", "1")
    assert main(["--topology", "1P1D", *A100, *load, "--rates", "2,200", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "are good up to 2 and not at 200 requests/s (with a straight line between the two: up to " in out


def test_a_load_that_is_too_small_for_a_rate_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--synthetic", "num_requests=4 input_tokens=200 output_tokens=30", "--slo", "ttft=5s", "--seeds", "1")
    assert main(["--topology", "1P1D", *A100, *load, "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "requests/s it comes as one burst, within a quarter of the run: it is too small to tell" in out


def test_replicas_are_plain_unless_the_scenario_says_otherwise() -> None:
    table = {"name": "mine", "topology": "1P1D", "profile": "a100-opt13b-tp1", "executor": {"step_mode": "alternate"}}
    plain = plain_table(table | {"unified": {"hold": "fill", "num_slots": 32}}, "2U")
    assert plain["unified"] == {"num_slots": 32, "step_mode": "mixed"}
    assert plain["topology"] == "2U"
    own = plain_table(table | {"unified": {"step_mode": "alternate", "hold": "fill"}}, "2U")
    assert own["unified"] == {"step_mode": "alternate", "hold": "fill"}
    with pytest.raises(BadCommand, match="replicas such as 4U"):
        plain_table(table, "1P1D")


SLO = ("--slo", "ttft=1s")
LOAD = ("--synthetic", "num_requests=8 input_tokens=64 output_tokens=4", *SLO)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--topology", "1P1D", *A100], "--scenario, or --profile and a load"),
        (["--topology", "2U", *A100, *LOAD], "it has no prefill executors"),
        (["--topology", "1P", *A100, *LOAD], "need each other"),
        (["--topology", "1P1D", *A100, *LOAD[:2]], "--slo: what is good"),
        (["--topology", "1P1D", *A100, *LOAD, "--against", "1P1D"], "--against 1P1D"),
        (["--topology", "1P1D", *A100, *LOAD, "--rates", "8:1:2x"], "rates: '8:1:2x'"),
        (["--topology", "1P1D", *A100, *LOAD, "--seeds", "1000"], "--seeds 1000"),
        (["--topology", "1P1D", *A100, *LOAD, "--seeds", "0"], "--seeds 0: from 1 to 100"),
        (["--topology", "1P1D", *A100, *LOAD, "--jobs", "-1"], "--jobs -1"),
        (["--topology", "1P1D", *A100, *LOAD, "--jobs", "0"], "--jobs 0: from 1 to 256"),
        (["--topology", "1P1D", *A100, *LOAD, "--set", "decode.num_slot=3"], "is num_slots meant"),
        (
            ["--topology", "1P1D", *A100, *SLO, "--synthetic", "concurrency=4 num_requests=9"],
            "closed loop",
        ),
        (["--topology", "1P1D", "--scenario", "coalesce_c16"], "it has arms of its own"),
        (["--topology", "1P1D", *A100, *LOAD, "--out", "/dev/null/x"], "/dev/null/x: Not a directory"),
        (["--topology", "1P1D", "--scenario", "nothing"], "no scenario of this name"),
        (["--topology", "1P1D", "--profile", "none", *LOAD], "neither a file nor one of the built-in"),
        (["--topology", "1P1D", *A100, *SLO, "--trace", "/nowhere"], "/nowhere"),
    ],
)
def test_what_makes_no_comparison_is_told_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == EXIT_REFUSED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("baton compare: ")
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_files_of_an_earlier_study_are_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "compare.csv").write_text("mine")
    assert main(["--topology", "1P1D", *A100, *LOAD, "--out", str(tmp_path)]) == EXIT_REFUSED
    assert "already holds a study (compare.csv)" in capsys.readouterr().err


def test_a_full_disk_keeps_no_file_and_costs_the_exit_code_but_not_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--topology", "1P1D", *A100, *LOAD, "--rates", "2", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    (tmp_path / "compare.html.new").symlink_to("/dev/full")
    assert main(told) == EXIT_FAILED
    shown = capsys.readouterr()
    assert shown.err == f"baton compare: {tmp_path}/compare.html: No space left on device: no file was kept\n"
    assert "1P1D against 2U" in shown.out
    assert "written" not in shown.out
    assert list(tmp_path.iterdir()) == []
    assert main(told) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_a_full_standard_output_costs_the_exit_code_and_no_file(tmp_path: Path) -> None:
    told = ["--topology", "1P1D", *A100, *LOAD, "--rates", "2", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "baton.services.cli.main", "compare", *told]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=200)
    assert (done.returncode, set(done.stderr.splitlines())) == (
        EXIT_FAILED,
        {"baton compare: standard output: No space left on device"},
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_the_examples_of_the_help_are_read() -> None:
    asked = parse(["--topology", "2P2D", "--rates", "1:8:1.5x", "--seeds", "4", "--set", "a.b=1"])
    assert (asked.topology, asked.rates, asked.seeds, asked.settings) == ("2P2D", "1:8:1.5x", 4, ("a.b=1",))
