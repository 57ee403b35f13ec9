"""Ratios say how many times as good, whichever way is better; boards of other machines or settings are told apart."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.board_lines import NOISE, Line, ScriptResult, changes, differences, times_as_good
from tests.support.boards import MACHINE, board_of

AMOUNTS = st.floats(1e-6, 1e6)


def test_ours_is_held_against_the_best_of_the_peers():
    rate = Line("rate", "req/s", True, 300.0, {"slow": 100.0, "fast": 200.0})
    delay = Line("delay", "ms", False, 3.0, {"slow": 12.0, "fast": 6.0})
    assert rate.ratio == 1.5
    assert delay.ratio == 2.0
    assert Line("alone", "ms", False, 3.0).ratio is None


def test_a_limit_that_is_reached_is_1():
    assert Line("rate", "GB/s", True, 2.0, limit=4.0).of_limit == 0.5
    assert Line("time", "µs", False, 2.0, limit=4.0).of_limit == 2.0
    assert Line("time", "µs", False, 2.0).of_limit is None


@given(AMOUNTS, AMOUNTS, st.booleans())
def test_what_is_better_this_way_is_worse_the_other_way(ours: float, other: float, is_more_better: bool):
    there, back = times_as_good(ours, other, is_more_better), times_as_good(other, ours, is_more_better)
    assert there is not None
    assert back is not None
    assert there * back == pytest.approx(1.0)
    assert (there > 1) == ((ours > other) if is_more_better else (ours < other))


def test_nothing_is_a_multiple_of_zero():
    assert times_as_good(0.0, 1.0, True) is None
    assert times_as_good(1.0, 0.0, False) is None


def test_the_same_machine_and_settings_do_not_differ():
    assert differences(board_of(), board_of()) == []


@pytest.mark.parametrize("name", sorted(MACHINE))
def test_another_machine_differs_by_what_is_named(name: str):
    other = msgspec.structs.replace(board_of(), machine={**MACHINE, name: "other"})
    assert [reason for reason in differences(other, board_of()) if f"{name} is 'other'" in reason]


def test_a_machine_that_says_less_differs():
    assert differences(board_of(), msgspec.structs.replace(board_of(), machine={}))


def test_other_flags_of_one_script_differ_and_scripts_of_one_board_alone_do_not():
    quick = ScriptResult(script="transfer", command=["--pieces", "50"], elapsed_s=1.0)
    whole = ScriptResult(script="transfer", command=[], elapsed_s=1.0)
    alone = ScriptResult(script="pd", command=["--rounds", "1"], elapsed_s=1.0)
    (reason,) = differences(board_of(quick, alone), board_of(whole))
    assert "transfer" in reason


def test_changes_are_of_lines_that_both_boards_have():
    now = ScriptResult(
        script="transfer",
        command=[],
        elapsed_s=1.0,
        lines=[Line("kept", "ms", False, 2.0), Line("new", "ms", False, 1.0), Line("other unit", "s", False, 1.0)],
    )
    then = ScriptResult(
        script="transfer",
        command=[],
        elapsed_s=1.0,
        lines=[Line("kept", "ms", False, 4.0), Line("gone", "ms", False, 1.0), Line("other unit", "ms", False, 1.0)],
    )
    (change,) = changes(board_of(now), board_of(then))
    assert (change.line.question, change.before, change.ratio, change.verdict) == ("kept", 4.0, 2.0, "better")


@pytest.mark.parametrize(
    ("ours", "verdict"), [(1.0, ""), (1.0 + NOISE / 2, ""), (1.0 - NOISE / 2, ""), (1.3, "worse"), (0.7, "better")]
)
def test_a_change_within_noise_has_no_verdict(ours: float, verdict: str):
    now, then = (
        board_of(ScriptResult(script="pd", command=[], elapsed_s=1.0, lines=[Line("delay", "ms", False, value)]))
        for value in (ours, 1.0)
    )
    (change,) = changes(now, then)
    assert change.verdict == verdict
