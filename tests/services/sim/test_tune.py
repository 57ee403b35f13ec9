"""`baton tune` on real machines with published step times: what it recommends, its files, and what is wrong with a
command."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from baton.core.config import ExecutorConfig, SchedulerConfig
from baton.core.ids import Role
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.services.sim import tune
from baton.services.sim.many_runs import ManyRuns
from baton.services.sim.run import EXIT_FAILED, EXIT_REFUSED
from baton.services.sim.tune import main
from baton.services.sim.tune_settings import check_config, command, config_text
from baton.services.up.plan import UpOptions
from baton.services.up.preflight import check_placing

PLAIN = ("--profile", "a100-opt13b-tp1")
A100 = (*PLAIN, "--set", "executor.piece_bytes=67108864")
SLO = ("--slo", "ttft=100ms")
LOAD = ("--synthetic", "num_requests=8 input_tokens=200 output_tokens=4", *SLO)


def test_the_recommended_settings_hold_a_rate_and_are_read_by_every_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--executors", "2", *A100, *LOAD, "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*told, "--knobs", "decode.num_slots=4 unified.token_budget=256"]) == 0
    found = json.loads((tmp_path / "tune.json").read_text())
    holds = {each["topology"]: each["holds"] for each in found["candidates"] if not each["knobs"]}
    assert set(holds) == {"1P1D", "2U"}
    assert found["best"]["topology"] == max(holds, key=lambda name: holds[name])
    best = next(
        each for each in found["candidates"] if (each["topology"], each["knobs"]) == tuple(found["best"].values())
    )
    assert best["fails_at"] == pytest.approx(best["holds"] * 1.05, rel=0.01)
    assert found["sentence"] in capsys.readouterr().out
    settings = tomllib.loads((tmp_path / "tune.toml").read_text())
    assert settings["device"] == {"block_size": 64}
    writes = found["best"]["topology"] == "1P1D"  # only there the size of a piece has an effect
    assert settings.get("prefill", {}).get("piece_bytes") == (67108864 if writes else None)
    assert found["command"] in (tmp_path / "tune.toml").read_text()
    with (tmp_path / "tune.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert any(row["on_frontier"] == "1" for row in rows)
    assert {row["figure"] for row in rows} >= {"good_per_s", "share", "ttft_s.p99", "itl_s.p99"}
    for points in found["frontier"].values():
        goods, times = [each["good_per_s"] for each in points], [each["latency_s"] for each in points]
        assert goods == sorted(goods)
        assert times == sorted(times)
    page = (tmp_path / "tune.html").read_text()
    assert "Goodput against TTFT p99" in page
    assert f'["topology","{found["best"]["topology"]}"]' in page
    assert found["settings"]["topology"] == found["best"]["topology"]
    assert "load.rate" not in found["settings"]


def test_a_load_that_is_too_small_to_find_a_limit_is_told(tmp_path: Path) -> None:
    """Four requests keep the SLO however fast they come: no rate above that of one burst is asked for, or told."""
    load = ("--synthetic", "num_requests=4 input_tokens=200 output_tokens=30", "--slo", "ttft=5s")
    told = ["--executors", "2", *A100, *load, "--seeds", "2", "--jobs", "1", "--knobs", "", "--out", str(tmp_path)]
    assert main(told) == 0
    found = json.loads((tmp_path / "tune.json").read_text())
    assert "the load is too small to find the limit of 1P1D and 2U" in found["sentence"]
    assert "which of them serves more" in found["sentence"]
    assert all(each["is_load_too_small"] and each["fails_at"] is None for each in found["candidates"])
    rates = sorted({point["rate"] for each in found["candidates"] for point in each["points"]})
    assert rates[-1] < 20 * rates[0]
    assert "within 5 %" not in (tmp_path / "tune.html").read_text()


def test_a_full_disk_keeps_no_file_and_costs_the_exit_code_but_not_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--executors", "1", *PLAIN, *LOAD, "--seeds", "1", "--jobs", "1", "--knobs", "", "--out", str(tmp_path)]
    (tmp_path / "tune.toml.new").symlink_to("/dev/full")
    assert main(told) == EXIT_FAILED
    shown = capsys.readouterr()
    assert shown.err == f"baton tune: {tmp_path}/tune.toml: No space left on device: no file was kept\n"
    assert "\n1 executor, TTFT" in shown.out
    assert list(tmp_path.iterdir()) == []
    assert main(told) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(tune.FILES)


def test_the_same_seed_finds_the_same_with_more_processes(tmp_path: Path) -> None:
    for name, jobs in (("a", "1"), ("b", "2")):
        told = ["--executors", "2", *A100, *LOAD, "--seeds", "2", "--jobs", jobs, "--knobs", "", "--budget", "12"]
        assert main([*told, "--out", str(tmp_path / name)]) == 0
    for file in tune.FILES:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    found = json.loads((tmp_path / "a" / "tune.json").read_text())
    assert found["is_out_of_runs"]
    assert found["num_runs"] <= 12
    assert "its runs were used up" in found["sentence"]


def test_an_interrupted_search_tells_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure, batches = ManyRuns.measure, []

    def interrupted(self: ManyRuns, *arguments: object) -> object:
        batches.append(arguments)
        if len(batches) > 3:
            raise KeyboardInterrupt
        return measure(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ManyRuns, "measure", interrupted)
    told = ["--executors", "1", *PLAIN, *LOAD, "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    assert main(told) == 130
    assert capsys.readouterr().err == "baton tune: interrupted after 3 runs: what was found by then is told\n"
    found = json.loads((tmp_path / "tune.json").read_text())
    assert found["is_interrupted"]
    assert found["best"] == {"topology": "1U", "knobs": {}}


def test_an_slo_that_nothing_keeps_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--synthetic", "num_requests=3 input_tokens=200 output_tokens=2", "--slo", "ttft=1ms")
    assert main(["--executors", "1", *PLAIN, *load, "--seeds", "1", "--jobs", "1"]) == 1
    assert "the SLO is too tight" in capsys.readouterr().out


def test_every_knob_of_a_fleet_that_differs_is_in_its_settings() -> None:
    table = {
        "name": "mine", "topology": "2P3D", "profile": "a100-opt13b-tp1", "block_size": 32,
        "executor": {"step_mode": "alternate", "hold": "off"}, "prefill": {"token_budget": 4096},
        "scheduler": {"placement": "by_tokens", "local_prompt_tokens": 64}, "router": {"max_streams": 100},
    }  # fmt: skip
    fleet = make_scenario(table).fleet()
    text = config_text(fleet, "a comment")
    read = check_config(text, fleet)
    for group in fleet.groups:
        assert read[group.role].knobs == group.config
        assert read[group.role].device.block_size == 32
    assert read[Role.SCHEDULER].knobs == fleet.scheduler
    assert read[Role.ROUTER].knobs == fleet.router
    assert isinstance(read[Role.DECODE].knobs, ExecutorConfig)
    assert command(fleet) == "baton up --model MODEL --prefill 2 --decode 3 --unified 0 --config tune.toml"


@pytest.mark.parametrize(
    "scheduler",
    [{"strict_pd": True, "handoff_slack": 0.5}, {"placement": "by_tokens", "local_prompt_tokens": 64}],
)
def test_settings_of_unified_executors_are_such_as_up_takes(scheduler: dict[str, Any]) -> None:
    table = {"name": "mine", "topology": "2U", "profile": "a100-opt13b-tp1", "scheduler": scheduler}
    fleet = make_scenario(table).fleet()
    read = check_config(config_text(fleet, "a comment"), fleet)[Role.SCHEDULER].knobs
    assert isinstance(read, SchedulerConfig)
    check_placing(UpOptions(Path("model"), num_prefill=0, num_decode=0, num_unified=2), read)
    assert (read.placement == "always_pd") == ("placement" in scheduler)


def test_the_executors_are_not_told_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--executors", "2", *A100, *LOAD, "--set", "topology=4U"]) == EXIT_REFUSED
    assert "--set topology=4U: which executors is told by flags of the command's own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--executors", "0", *A100, *LOAD], "--executors 0"),
        (["--executors", "2", *A100, *LOAD, "--budget", "0"], "--budget 0"),
        (["--executors", "2", *A100, *LOAD, "--seeds", "0"], "--seeds 0: from 1 to 100"),
        (["--executors", "2", *A100, *LOAD, "--jobs", "0"], "--jobs 0: from 1 to 256"),
        (["--executors", "2", *A100, *LOAD, "--knobs", "decode.num_slots"], "knobs: 'decode.num_slots'"),
        (["--executors", "2", *A100, *LOAD, "--knobs", "decode.slots=3"], "there is no such knob"),
        (["--executors", "2", *A100, *LOAD, "--knobs", "scheduler.placement=best"], "'best' is none of"),
        (["--executors", "1", *PLAIN, *LOAD, "--set", "prefill.num_slots=9"], "there is no prefill executor"),
        (["--executors", "1", *A100, *LOAD], "it would have no effect: only on a prefill executor"),
        (["--executors", "1", *PLAIN, *LOAD, "--knobs", "decode.num_slots=3"], "it has no effect on any of 1U"),
        (["--executors", "2", *A100, *LOAD[:2]], "--slo: what is good"),
        (["--executors", "2", *A100, *LOAD, "--out", "/dev/null/x"], "/dev/null/x: Not a directory"),
        (["--executors", "2", *A100, *SLO], "--scenario, or --profile and a load"),
    ],
)
def test_what_makes_no_search_is_told_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == EXIT_REFUSED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("baton tune: ")
    assert says in captured.err
    assert captured.err.count("\n") == 1
