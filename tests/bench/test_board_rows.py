"""What each script's JSON becomes on the board."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from bench import board, control_plane, executor, hot_paths, pd, transfer
from bench.control_plane import Row


def control_row(system: str, requests_per_s: float, cpu: dict[str, float]) -> dict[str, Any]:
    return Row(system, "token ids", 64, requests_per_s, 1.0, 65.0, 5.0, 9.0, cpu, 0.1).as_json()


def test_processes_add_up_and_the_first_is_the_front():
    row = control_row("baton P/D", 500.0, {"router": 1.28, "scheduler": 0.32, "prefill": 0.4, "decode": 0.5})
    assert row["front_cpu_ms_per_request"] == 1.28
    assert row["all_cpu_ms_per_request"] == pytest.approx(2.5)
    assert row["cpu_us_per_token"]["router"] == pytest.approx(20.0)  # of 64 tokens


def test_ours_stands_beside_the_peer_of_the_same_shape():
    report = [
        control_row("baton P/D", 500.0, {"router": 1.0, "decode": 2.0}),
        control_row("dynamo unified", 900.0, {"front end": 0.1}),
        control_row("dynamo P/D", 250.0, {"front end": 2.0, "mocker decode": 2.0}),
    ]
    lines = list(control_plane.board_lines(report))
    assert [(line.ours, line.peers, line.ratio) for line in lines[:3]] == [
        (500.0, {"Dynamo": 250.0}, 2.0),
        (1.0, {"Dynamo": 2.0}, 2.0),
        (3.0, {"Dynamo": 4.0}, pytest.approx(4 / 3)),
    ]


def test_rounds_give_the_median_of_each_figure_for_itself():
    rounds = [
        Row("s", "token ids", 1, rate, 1.0, 65.0, first_ms, 9.0, {"router": cpu}, 0.1)
        for rate, first_ms, cpu in ((1.0, 9.0, 5.0), (2.0, 8.0, 6.0), (3.0, 7.0, 1.0))
    ]
    middle = control_plane.median_row(rounds)
    assert (middle.requests_per_s, middle.ttft_p50_ms, middle.cpu_ms_per_request) == (2.0, 8.0, {"router": 5.0})
    assert middle.streams == 1


def test_a_shape_that_no_peer_has_is_alone():
    rows = [pd.Row("baton 1P1D", 80.0, 1.0, 900.0, 950.0, 60.0, 70.0, 5000.0, 5100.0, 2.0, 0)]
    lines = list(pd.board_lines({"rows": [row._asdict() for row in rows]}))
    assert [(line.question, line.ours, line.peers) for line in lines][:2] == [
        ("1P1D: output tokens per second", 80.0, {}),
        ("1P1D: TTFT p50", 900.0, {}),
    ]


def test_failures_of_all_rounds_are_added():
    rounds = [pd.Row("s", *[value] * 9, failed) for value, failed in ((1.0, 2), (3.0, 0), (2.0, 1))]
    assert pd.median_row(rounds) == pd.Row("s", *[2.0] * 9, 3)


def test_an_engines_peers_and_limit_come_from_its_ratios():
    row = {"name": "decode 16", "num_tokens": 64, "baton_s": 2.0, "of_limit": 0.5, "transformers_s_ratio": 2.0}
    (line,) = executor.board_lines({"threads": 2, "rows": [row]})
    assert (line.ours, line.peers, line.limit) == (32.0, {"transformers": 16.0}, 64.0)


def test_a_burst_is_held_against_a_copy_of_memory():
    found = dict.fromkeys(transfer.QUESTIONS, 1.0) | {"copy_gb_per_s": 4.0}
    limits = {line.question: line.limit for line in transfer.board_lines({"cma": found})}
    assert limits["cma: 64 blocks in one command"] == 4.0
    assert sum(limit is not None for limit in limits.values()) == 1


def test_a_hot_path_is_held_against_its_aim_in_its_quietest_round():
    row = {"name": "path", "median_us": 3.0, "quietest_us": 2.0, "aim_us": 4.0}
    (line,) = hot_paths.board_lines([row])
    assert (line.ours, line.limit, line.of_limit) == (2.0, 4.0, 2.0)


def test_every_script_of_the_board_has_its_lines():
    for name in board.SCRIPTS:
        assert callable(importlib.import_module(f"bench.{name}").board_lines)
