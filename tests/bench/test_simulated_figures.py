"""Figures of the rounds of two sides, and how far apart they are."""

from __future__ import annotations

import pytest

from bench.simulated_figures import LIMITS, WINDOW_S, compare, figures_of, token_rates
from tests.core.metrics.stub import answer, renumbered


def test_rates_are_of_whole_windows() -> None:
    every_half_second = answer([(0.5 * number, 1) for number in range(1, 16)], is_counted=True)
    assert token_rates([every_half_second]) == [2.0] * int(7.0 / WINDOW_S)
    assert token_rates([]) == []


def test_rounds_have_all_figures_that_are_judged() -> None:
    rows = renumbered([answer([(0.1 * k, 1) for k in range(1, 80)], is_counted=True) for _ in range(4)])
    assert LIMITS.keys() <= figures_of(rows).keys()


def test_a_figure_holds_up_to_its_limit() -> None:
    real = [dict.fromkeys(LIMITS, 10.0), dict.fromkeys(LIMITS, 20.0)]
    close = [{name: value * 1.09 for name, value in each.items()} for each in real]
    found = {row.figure: row for row in compare(real, close)}
    assert found["ttft_s.p50"].off == pytest.approx(0.09)
    assert found["ttft_s.p50"].ratio.value == pytest.approx(1.09)
    assert all(row.holds for row in found.values())
    far = [{name: value * 0.88 for name, value in each.items()} for each in real]
    assert {name for name, row in {row.figure: row for row in compare(real, far)}.items() if not row.holds} == {
        "ttft_s.p50",
        "itl_s.p50",
        "output_tokens_per_s.p50",
    }


def test_a_round_without_a_judged_figure_is_an_error() -> None:
    whole = dict.fromkeys(LIMITS, 1.0)
    with pytest.raises(KeyError):
        compare([whole], [{}])
