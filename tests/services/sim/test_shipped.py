"""`baton sim` with what ships with the package: policies, traces, profiles; and rows of traces that are broken."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from baton.core.metrics.report import decode_facts, decode_report
from baton.core.sim.fleet_run.named_policies import POLICIES
from baton.core.sim.fleet_run.scenario_file import built_in, make_scenario
from baton.core.sim.step_time.profile import built_in as built_in_profiles
from baton.services.loadgen.traces.reading import samples
from baton.services.sim.load import load_of
from baton.services.sim.run import EXIT_REFUSED, main
from baton.services.sim.run_flags import parse, table_of
from baton.services.sim.seeds import depends_on_seed

ROOT = Path(__file__).parents[3]
SAMPLE = ("--topology", "1P1D", "--profile", "cpu-smollm2", "--trace", "sample")
WHOLE = {
    "mooncake.jsonl": '{"timestamp":0,"input_length":9,"output_length":4,"hash_ids":[1]}',
    "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "agentic.jsonl": '{"id":"a","block_size":64,"requests":[]}',
    "prompts.jsonl": '{"prompt":"hello","max_tokens":4}',
}


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_named_policy_runs_what_ships(policy: str, tmp_path: Path) -> None:
    few = ["--set", "load.num_requests=3", "--set", "load.speed=0.1"]
    assert main([*SAMPLE, "--policy", policy, *few, "--out", str(tmp_path)]) == 0
    report = decode_report((tmp_path / "report.json").read_bytes())
    assert report.summary.counts.succeeded == 3
    for knob, value in POLICIES[policy].knobs.items():
        assert report.run.settings[knob] == value


def test_what_is_set_goes_over_the_policy() -> None:
    told = [*SAMPLE, "--policy", "plain"]
    assert table_of(parse(told))["scheduler"]["placement"] == "always_pd"
    own = table_of(parse([*told, "--set", "scheduler.placement=by_tokens"]))
    assert own["scheduler"] == {"placement": "by_tokens", "prefix_wait": "false"}


def test_sessions_of_agents_run_in_the_order_of_their_turns(capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--topology", "1U", "--profile", "a100-opt13b-tp1", "--trace", "sample-sessions"]
    assert main([*told, "--set", "load.num_sessions=1", "--set", "load.rate=1", "--set", "load.speed=10"]) == 0
    assert "requests succeeded" in capsys.readouterr().out


def test_sessions_without_a_rate_are_told_which_settings_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--topology", "1U", "--profile", "a100-opt13b-tp1", "--trace", "sample-sessions"]) == EXIT_REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert "sample-sessions has no times of its own" in line
    assert "--set load.rate=… or --set load.concurrency=…" in line


@pytest.mark.parametrize("page", ["README.md", "docs/simulator.md"])
def test_every_command_of_the_docs_makes_a_scenario_and_seeds_are_told_where_they_draw(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = re.findall(r"^ *baton sim (--.*?)(?:\s{3,}.*|\s+#.*|)$", text, re.MULTILINE)
    assert len(lines) > 3
    for line in lines:
        asked = parse(shlex.split(line))
        table = {} if asked.list else table_of(asked)
        assert asked.list or table["topology"], line
        if asked.seeds is not None:
            scenario = make_scenario(table)
            assert depends_on_seed(scenario, scenario.fleet(), load_of(scenario).plan), line


def test_the_list_names_all_that_ships(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    names = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert names >= {*built_in(), *built_in_profiles(), *samples(), *POLICIES}


def test_texts_are_simulated_by_their_bytes_and_equal_beginnings_hit(tmp_path: Path) -> None:
    trace = tmp_path / "texts.jsonl"
    shared = "You are a helpful assistant. " * 40
    rows = [{"prompt": shared + word * 30, "max_tokens": 5, "at": at} for at, word in enumerate(("one ", "two "))]
    trace.write_text(
        "\n".join([*map(json.dumps, rows), '{"messages": [{"role": "user", "content": "hello"}], "at": 2}'])
    )
    told = ["--topology", "1U", "--profile", "cpu-smollm2", "--trace", str(trace), "--set", "load.speed=0.1"]
    assert main([*told, "--set", "load.output_tokens=7", "--out", str(tmp_path / "a")]) == 0
    with (tmp_path / "a" / "requests.jsonl").open("rb") as lines:
        facts = list(decode_facts(lines))
    assert [row.num_input_tokens for row in facts] == [-(-len(shared + "one " * 30) // 4)] * 2 + [10]
    assert [row.num_cached_tokens for row in facts] == [0, len(shared) // 4 // 64 * 64, 0]
    assert [row.num_output_tokens for row in facts] == [5, 5, 7]
    warnings = decode_report((tmp_path / "a" / "report.json").read_bytes()).warnings
    assert any("four bytes" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("name", "row", "says"),
    [
        (
            "mooncake.jsonl",
            '{"timestamp":0,"input_length":9,"output_length":4,"hash_ids":[1,"x"]}',
            "`$.hash_ids[1]`",
        ),
        ("azure.csv", "2023-11-16 18:17:04,10,x", "GeneratedTokens: 'x' is no number of tokens"),
        (
            "agentic.jsonl",
            '{"id":"a","block_size":64,"requests":[{"type":"s","t":0,"in":9,"out":2,"keep":3,"new":[]}]}',
            "$.requests[0].keep: 3 is more than the blocks of the turn before",
        ),
        ("prompts.jsonl", '{"prompt":7}', "`$.prompt`"),
    ],
)
def test_a_broken_row_of_any_format_is_named_by_line_and_field(
    name: str, row: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(f"{WHOLE[name]}\n{row}\n")
    assert main(["--topology", "1U", "--profile", "cpu-smollm2", "--trace", str(path)]) == EXIT_REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name}:2: " in line
    assert says in line
