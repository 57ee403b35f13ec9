"""`baton sim`: scenarios, their files, and what is wrong with a command line."""

from pathlib import Path

import msgspec
import pytest

from baton.core.metrics.report import decode_facts, decode_report
from baton.core.sim.fleet_run.arms import KEYS
from baton.core.sim.fleet_run.scenario_file import built_in, make_scenario, read_scenario
from baton.services.loadgen.comparing import main as compare
from baton.services.loadgen.out_folder import taken
from baton.services.sim.ground_truth import KEY
from baton.services.sim.load import load_of
from baton.services.sim.run import EXIT_FAILED, EXIT_REFUSED, main

QUICK = ("--set", "load.num_sessions=6")
ALONE = ("--topology", "2U", "--profile", "a100-opt13b-tp1", "--synthetic", "rate=2")


def test_the_small_scenario_writes_the_load_generators_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--scenario", "small", "--out", str(tmp_path / "a"), "--steps"]) == 0
    report = decode_report((tmp_path / "a" / "report.json").read_bytes())
    assert report.summary.counts.succeeded == report.summary.counts.planned == 120
    assert report.summary.goodput is not None
    assert report.summary.prefix_hit_rate is not None
    assert report.summary.prefix_hit_rate > 0.3
    assert [note.partition(":")[0] for note in report.notes] == ["step times"]
    assert report.warnings == ()
    prefill, decode = report.executors
    assert (prefill.name, decode.name) == ("prefill-0", "decode-0")
    lines = (tmp_path / "a" / "steps.jsonl").read_bytes().splitlines()
    steps = [msgspec.json.decode(line)["executor"] for line in lines]
    assert (prefill.num_steps, decode.num_steps) == (steps.count("prefill-0"), steps.count("decode-0"))
    assert 0 < prefill.busy_share < 1
    assert prefill.kv_bytes > 0 == decode.kv_bytes
    with (tmp_path / "a" / "requests.jsonl").open("rb") as lines:
        assert len(list(decode_facts(lines))) == 120
    assert (tmp_path / "a" / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "a" / "steps.jsonl").stat().st_size > 1000
    shown = capsys.readouterr().out
    assert "TTFT" in shown
    assert f"note: {report.notes[0]}" in shown
    assert "warning:" not in shown


def test_the_same_seed_writes_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert main(["--scenario", "small", *QUICK, "--seed", seed, "--out", str(tmp_path / name)]) == 0
    for file in ("report.json", "requests.jsonl", "summary.csv", "report.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
        assert (tmp_path / "a" / file).read_bytes() != (tmp_path / "c" / file).read_bytes()


def test_two_topologies_under_one_load_can_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "small", *QUICK, "--out", str(tmp_path / "a")]) == 0
    assert main(["--scenario", "small", *QUICK, "--set", "topology=2U", "--out", str(tmp_path / "b")]) == 0
    assert compare([str(tmp_path / "a"), str(tmp_path / "b"), "--unlike"]) == 0
    assert "18 requests succeeded in both" in capsys.readouterr().out


def test_a_command_line_alone_makes_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    row = '{"timestamp": %d, "input_length": 600, "output_length": 4, "hash_ids": [1, %d]}\n'
    trace.write_text("".join(row % (1000 * n, 10 + n) for n in range(5)))
    told = ["--topology", "1U", "--profile", "a100-opt13b-tp1", "--trace", str(trace)]
    assert main([*told, "--out", str(tmp_path / "a")]) == 0
    with (tmp_path / "a" / "requests.jsonl").open("rb") as lines:
        assert [row.num_cached_tokens for row in decode_facts(lines)] == [0, 512, 512, 512, 512]
    spec = "--synthetic", "rate=4 num_requests=8 input_tokens=uniform:10-90 output_tokens=3"
    assert main(["--topology", "1P1D", "--profile", "a100-opt13b-tp1", *spec, "--slo", "ttft=2s"]) == 0
    assert "8 of 8 requests succeeded" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in built_in() if KEY not in read_scenario(name)])
def test_every_scenario_makes_a_fleet_and_says_what_it_is(name: str) -> None:
    scenario = make_scenario({key: value for key, value in read_scenario(name).items() if key not in KEYS})
    assert len(scenario.title) > 20
    assert scenario.fleet().groups


def test_asks_are_the_requests_of_a_scenario_that_names_each() -> None:
    table = {"name": "mine", "topology": "1U", "profile": "a100-opt13b-tp1"}
    asks = [{"at_s": 0.5 * n, "input_tokens": 128 if n % 2 else 4096, "output_tokens": 64} for n in range(4)]
    load = load_of(make_scenario(table | {"asks": asks}))
    assert [(request.at_s, request.num_input_tokens) for request in load.plan.requests] == [
        (0.0, 4096), (0.5, 128), (1.0, 4096), (1.5, 128),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--scenario, or --topology"),
        (["--scenario", "smal"], "is small meant?"),
        (["--scenario", "small", "--set", "topology=2X"], "topology: '2X'"),
        (["--scenario", "small", "--set", "decode.num_slot=4"], "decode.num_slot: there is no such knob; is num_slots"),
        (["--scenario", "small", "--set", "decode.num_slots=0"], "num_slots = 0"),
        (["--scenario", "small", "--set", "prefill.step_mode=alternate"], "step_mode = alternate has no effect"),
        (["--scenario", "small", "--set", "load.rat=4"], "load.rat"),
        (["--scenario", "small", "--set", "load.content=tokens"], "load.content: has no effect in a simulation"),
        (["--scenario", "small", "--set", "wires.latency_s=x"], "wires.latency_s"),
        (["--scenario", "small", "--set", "profile=none"], "neither a file nor one of the built-in profiles"),
        (["--scenario", "small", "--set", "nothing"], "is not knob=value"),
        (["--scenario", "small", "--set", "parts=no.such:PARTS"], "parts: 'no.such:PARTS'"),
        (["--scenario", "small", "--set", "nope=4"], "nope: there is no such field"),
        (["--scenario", "small", "--set", "topolgy=2U"], "topolgy: there is no such field; is topology meant?"),
        (["--scenario", "small", "--set", "decod.num_slots=4"], "decod: there is no such field; is decode meant?"),
        (["--scenario", "small", "--set", "wires.latncy_s=1"], "wires.latncy_s: there is no such field; is latency_s"),
        (["--scenario", "small", "--set", "load.rat=4"], "load.rat: there is no such setting of a load; is rate"),
        (
            ["--topology", "1U", "--profile", "a100-opt13b-tp1", "--synthetic", "rate=1,input_tokens=normal:9,2"],
            "options are separated by blanks: 'rate=1 input_tokens=normal:9,2'",
        ),
        (["--scenario", "small", "--steps"], "--steps"),
        (["--scenario", "unbalanced_pair", "--set", "load.rate=1"], "--set load.rate=1: it would have no effect"),
        (["--scenario", "unbalanced_pair", "--set", "load.rate=1"], "every arm sets it (prompts: 2U, mixed, "),
        (["--scenario", "distserve_opt13b", "--set", "load.rate=1"], "the search of rates varies it"),
        ([*ALONE, "--set", "scheduler.strict_pd=true"], "it would have no effect: there is no decode executor"),
        ([*ALONE, "--set", "decode.num_slots=4"], "--set decode.num_slots=4: it would have no effect: there is no"),
        ([*ALONE, "--set", "executor.share_wait_s=1"], "it would have no effect: only on a decode executor"),
        ([*ALONE, "--set", "executor.hold=fill"], "it would have no effect: only with step_mode = alternate"),
        ([*ALONE, "--set", "tells_progress=true"], "it would have no effect: there is no prefill executor"),
        (["--scenario", "small", "--set", "profiles.unified=a100-opt13b-tp1"], "there is no unified executor"),
        (["--scenario", "small", "--set", "unified.num_slots=4"], "there is no unified executor"),
        (["--scenario", "coalesce_c16", "--set", "decode.num_slots=4"], "there is no decode executor"),
        (["--scenario", "small", "--slo", "x=1"], "slo"),
        (["--topology", "1U", "--profile", "a100-opt13b-tp1"], "--trace or --synthetic"),
        (["--topology", "1U", "--profile", "a100-opt13b-tp1", "--synthetic", "rate"], "'rate' is not NAME=VALUE"),
    ],
)
def test_what_makes_no_run_is_one_line_that_names_it(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == EXIT_REFUSED
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert says in lines[0]


@pytest.mark.parametrize(
    "settings",
    [
        ["scheduler.strict_pd=false"],  # a default says nothing
        ["executor.hold=fill", "executor.step_mode=alternate"],
        ["executor.share_wait_s=1", "topology=1P1D"],
        ["tells_progress=false"],
    ],
)
def test_what_has_an_effect_or_says_nothing_is_taken(settings: list[str]) -> None:
    told = [part for setting in settings for part in ("--set", setting)]
    assert main([*ALONE[:-1], "rate=2 num_requests=2", *told]) == 0


def test_a_refused_request_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    spec = "rate=1 num_requests=1 input_tokens=2000000 output_tokens=4"
    told = ["--topology", "1U", "--profile", "a100-opt13b-tp1", "--synthetic", spec, "--set", "max_model_len=4000000"]
    assert main(told) == EXIT_FAILED
    assert "  http_error: NEVER_FITS: blocks 31,251" in capsys.readouterr().out


def test_a_setting_that_some_arms_override_is_said_to_be_lost_of_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.toml"
    path.write_text(
        'topology = "1U"\nprofile = "a100-opt13b-tp1"\nfigures = ["output_tokens_per_s"]\n'
        "asks = [{ at_s = 0.0, input_tokens = 64, output_tokens = 4 }]\n"
        '[[arms]]\nname = "one"\n[[arms]]\nname = "two"\n[arms.set]\ntopology = "2U"\n'
    )
    assert main(["--scenario", str(path), "--set", "topology=3U", "--set", "unified.num_slots=4"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == ["baton sim: --set topology=3U: no effect on two, which set it themselves"]


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    out = str(tmp_path / "file" / "x")
    assert main(["--scenario", "small", "--out", out]) == EXIT_REFUSED
    shown = capsys.readouterr()
    assert shown.err == f"baton sim: {out}: Not a directory\n"
    assert shown.out == ""


def test_a_second_run_into_the_same_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with taken(str(tmp_path), (), "run"):
        assert main(["--scenario", "small", "--out", str(tmp_path)]) == EXIT_REFUSED
    assert capsys.readouterr().err == f"baton sim: out: another run is writing to {tmp_path}\n"


def test_a_full_disk_keeps_no_file_and_the_run_can_be_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--scenario", "small", *QUICK, "--out", str(tmp_path)]
    (tmp_path / "report.html.new").symlink_to("/dev/full")
    assert main(told) == EXIT_FAILED
    shown = capsys.readouterr()
    assert "18 of 18 requests succeeded" in shown.out
    assert f"baton sim: {tmp_path}/report.html: No space left on device: no file was kept" in shown.err
    assert list(tmp_path.iterdir()) == []
    assert main(told) == 0
