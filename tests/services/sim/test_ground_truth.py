"""`baton sim` of a scenario that is compared with a measured run: made-up runs computed by hand, and the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from baton.core.sim import scenarios
from baton.services.sim.ground_truth import clock_shift_s, measured_figures
from baton.services.sim.run import EXIT_REFUSED, main
from baton.services.sim.vllm_files import read_measured
from tests.support.measured_runs import META, alone, real_run, write_run

HOST_MS = 0.5
TOLD = ("--scenario", "vllm-rtx4090", "--set", f"measured.host_ms={HOST_MS}", "--data")


def run_of(folder: Path, slower: float = 1.0, **meta: Any) -> Path:
    requests = [alone(n, 2.0 * n, 200 + 100 * n, 5 + n, HOST_MS / 1e3, slower) for n in range(4)]
    return write_run(folder, requests, **meta)


def errors_of(text: str) -> dict[str, float]:
    """By figure and statistic, percent."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) > 5 and cells[4].endswith("%"):
            found[cells[1]] = float(cells[4].rstrip("%"))
    return found


def test_a_run_that_took_what_its_kernels_and_its_host_take_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TOLD, str(run_of(tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "16 sequences, 2048 tokens a step, 4000 blocks of 16" in out
    assert len(errors_of(out)) == 15
    assert max(map(abs, errors_of(out).values())) == 0.0
    assert out.count("judged │") == 4
    assert "all judged figures are within 5% of what was measured" in out


def test_a_run_that_took_longer_is_not_met_and_says_what_is_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TOLD, str(run_of(tmp_path, slower=1.25))]) == 1
    out = capsys.readouterr().out
    assert errors_of(out)["TPOT mean"] == -20.0
    assert "4 judged figures are not within 5% of what was measured" in out
    assert main([*TOLD, str(tmp_path), "--set", "measured.tolerance=0.21"]) == 0


def test_what_is_measured_counts_from_the_arrival_on_the_engines_clock(tmp_path: Path) -> None:
    late = alone(1, 3.0, 200, 2, 0.0)
    late = {key: value + 0.25 if key.endswith("_ts") else value for key, value in late.items()}
    first = alone(0, 0.0, 200, 1, 0.0)
    requests = read_measured(write_run(tmp_path, [late, first])).requests
    assert clock_shift_s(requests) == pytest.approx(500.0 - 1.7e9)
    found = measured_figures(requests)
    took_s = first["first_token_ts"] - first["queued_ts"]
    assert found["ttft_s"].max == pytest.approx(took_s + 0.25, abs=1e-6)
    assert found["tpot_s"].count == 1


def test_limits_come_from_what_the_engine_resolved_and_may_be_set_otherwise(tmp_path: Path) -> None:
    resolved = {"scheduler_config": {"max_num_seqs": 32, "async_scheduling": False, "long_prefill_token_threshold": 99}}
    engine = read_measured(run_of(tmp_path, resolved_config=resolved)).engine
    assert (engine.num_slots, engine.token_budget, engine.max_model_len) == (32, 2048, 8192)
    assert (engine.num_queued_steps, engine.long_prefill_tokens, engine.captured) == (1, 99, ())
    assert main([*TOLD, str(tmp_path)]) == 1  # prompts in parts of 99 tokens, and the run had none
    assert main([*TOLD, str(tmp_path), "--set", "unified.long_prefill_tokens=2048"]) == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("*meta.json", '"num_gpu_blocks": 4000', '"num_gpu_blocks": 0', "meta.json: kv_cache.num_gpu_blocks: "),
        ("*meta.json", '"num_gpu_blocks": 4000, ', "", "meta.json: kv_cache: Object missing required field"),
        ("*meta.json", '"max_num_seqs": 16, ', "", "meta.json: engine_kwargs.max_num_seqs: is missing"),
        (
            "*meta.json",
            '"max_num_seqs"',
            '"tensor_parallel_size": 2, "max_num_seqs"',
            "engine_kwargs.tensor_parallel_size: 2",
        ),
        (
            "*meta.json",
            "Llama-3.2-1B",
            "Unheard-of-1B",
            "measured.num_layers: the number of layers of meta-llama/Unheard-of",
        ),
        ("*requests.jsonl", '"output_toks": 6', '"output_toks": "x"', "requests.jsonl: line 2: output_toks: "),
        ("*requests.jsonl", '"queued_ts": 502.0', '"queued_ts": 902.0', "line 2: first_token_ts: is before queued_ts"),
        ("*requests.jsonl", "{", "[", "requests.jsonl: line 1: "),
        ("*attention.csv", "kv_prefill,", "", "attention.csv: line 1: kv_prefill: there is no column kv_prefill"),
        ("*attention.csv", "\n0,0,1,16,", "\n0,0,1,16.5,", "kv_decode: 16.5 is no whole number"),
        ("*attention.csv", "\n0,0,1,16,", "\n0,0,1,16,-", "time_us: -3.516 is not from 0"),
        ("*dense.csv", "qkv_proj,2048,10.0", "qkv_proj,2048,fast", "dense.csv: line 3: time_us: 'fast' is no number"),
        ("*dense.csv", "qkv_proj,2048", "qkv_proj,1", "dense.csv: line 3: tokens: 1 is there twice for qkv_proj"),
        (
            "*dense.csv",
            "gate_up_proj,1,20.0\ngate_up_proj,2048,20.0\n",
            "",
            "dense.csv: layer: no rows of gate_up_proj",
        ),
        ("*per_sequence.csv", "lm_head,16,100.0\n", "", "per_sequence.csv: layer: one row of lm_head"),
    ],
)
def test_a_broken_file_is_one_line_that_names_file_line_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, says: str
) -> None:
    (path,) = run_of(tmp_path).glob(file)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert main([*TOLD, str(tmp_path)]) == EXIT_REFUSED
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line


def test_a_figure_that_is_none_is_refused_and_not_left_unjudged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(scenarios.__file__).parent / "vllm-rtx4090.toml").read_text()
    assert '"ttft_s.p99"' in text
    (tmp_path / "misspelt.toml").write_text(text.replace('"ttft_s.p99"', '"ttft_s.p98"'))
    data = run_of(tmp_path / "run")
    assert main(["--scenario", str(tmp_path / "misspelt.toml"), "--data", str(data)]) == EXIT_REFUSED
    assert "measured.judged: ttft_s.p98 is none of ttft_s.mean, ttft_s.p50" in capsys.readouterr().err


def test_files_that_are_missing_or_there_twice_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TOLD, str(tmp_path / "none")]) == EXIT_REFUSED
    assert "there is no such folder" in capsys.readouterr().err
    run_of(tmp_path)
    (tmp_path / "Other_meta.json").write_text(json.dumps(META))
    assert main([*TOLD, str(tmp_path)]) == EXIT_REFUSED
    assert "2 files *meta.json, one is needed: Card_Model__meta.json, Other_meta.json" in capsys.readouterr().err


def test_data_is_asked_for_by_its_option_or_its_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BATON_DATA", raising=False)
    assert main(["--scenario", "vllm-rtx4090"]) == EXIT_REFUSED
    assert "--data: the folder of the measured run is needed (or BATON_DATA" in capsys.readouterr().err
    assert main(["--scenario", "small", "--data", str(tmp_path)]) == EXIT_REFUSED
    assert "--data: only for a scenario that is compared with a measured run" in capsys.readouterr().err
    run_of(tmp_path / "vllm_groundtruth")
    monkeypatch.setenv("BATON_DATA", str(tmp_path))
    assert main([*TOLD[:-1]]) == 0


def test_an_unknown_models_layers_may_be_told(tmp_path: Path) -> None:
    run_of(tmp_path, model="mine/unheard-of")
    assert main([*TOLD, str(tmp_path), "--set", "measured.num_layers=16"]) == 0


@pytest.mark.skipif(real_run() is None, reason="no vllm_groundtruth in $BATON_DATA or ../shared/data")
def test_the_real_run_is_met_within_5_percent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "vllm-rtx4090", "--data", str(real_run())]) == 0
    found = errors_of(capsys.readouterr().out)
    assert len(found) == 15
    assert all(abs(found[name]) <= 5.0 for name in ("TTFT mean", "TTFT p99", "TPOT mean", "E2E mean"))
