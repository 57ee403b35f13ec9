"""The sentence that says who is better where and why, of made-up runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.measured import GOOD, SHARE, Measured
from baton.core.sim.study.pairs import figure, good_difference
from baton.core.sim.study.verdict import AtRate, Held, Named, held, judge
from tests.core.sim.study.made_up import run

NAMED = Named("1P1D", "2U")
SLO = Slo(ttft_s=1.0, itl_s=0.05)


def seeds(share: float, rate: float, spread: float = 0.01) -> list[Measured]:
    return [run(share + spread * step, rate) for step in (-1, 0, 1)]


def at(rate: float, first: float, second: float, spread: float = 0.01) -> AtRate:
    # opposite orders, so that what differs between the two is not the same in all seeds
    return AtRate(rate, seeds(first, rate, spread), seeds(second, rate, -spread))


def test_two_that_are_alike_do_not_differ_beyond_noise() -> None:
    verdict = judge([at(1, 0.99, 0.99), at(4, 0.9, 0.91), at(8, 0.5, 0.47, spread=0.03)], NAMED, SLO)
    assert verdict.sentence.startswith("No difference beyond noise between 1P1D and 2U from 1 to 8 requests/s")
    assert verdict.better == ((1, 8, ""),)
    assert verdict.reason == ""


def test_two_that_keep_nothing_are_not_called_alike() -> None:
    verdict = judge([at(1, 0.0, 0.0, spread=0.0), at(4, 0.0, 0.0, spread=0.0)], NAMED, SLO)
    assert verdict.sentence.startswith("Neither 1P1D nor 2U keeps the SLO from 1 to 4 requests/s")


def test_who_is_better_where_by_how_much_and_where_they_cross() -> None:
    verdict = judge([at(1, 0.99, 0.99), at(2, 0.7, 0.95), at(4, 0.6, 0.5), at(8, 0.55, 0.2)], NAMED, SLO)
    assert verdict.sentence.startswith("1P1D serves more good requests than 2U from 4 to 8 requests/s, up to 2.75")
    assert "up to 2.75 times as many (4.4 ± " in verdict.sentence
    assert "because 2U keeps TTFT ≤ 1 s for 20 % of the requests (1P1D: 55 %)" in verdict.sentence
    assert "2U does at 2 requests/s, up to 36 % more (1.9 ± " in verdict.sentence
    assert "no difference beyond noise at 1 requests/s" in verdict.sentence
    assert verdict.better == ((1, 1, ""), (2, 2, "2U"), (4, 8, "1P1D"))
    (turn,) = verdict.crossings
    assert 2 < turn.low < turn.rate < turn.high < 4
    text = f"they cross at {turn.rate:.3g} ({turn.low:.3g} to {turn.high:.3g}) requests/s, interpolated between 2 and 4"
    assert text in verdict.sentence


def test_one_run_is_judged_by_its_parts() -> None:
    even = [0.9, 0.8] * 5
    better = [run(0.85, 10.0, even)], [run(0.45, 10.0, [share - 0.4 for share in even])]
    found = good_difference(*better)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((4.0, 4.0, 4.0))
    assert judge([AtRate(10.0, *better)], NAMED, SLO).better == ((10.0, 10.0, "1P1D"),)
    noisy = [run(0.5, 10.0, [0.0, 1.0] * 5)], [run(0.5, 10.0, [1.0, 0.0] * 5)]
    assert judge([AtRate(10.0, *noisy)], NAMED, SLO).better == ((10.0, 10.0, ""),)
    alone = [run(0.9)], [run(0.1)]
    unknown = judge([AtRate(10.0, *alone)], NAMED, SLO)
    assert unknown.better == ((10.0, 10.0, ""),)
    assert "cannot be told apart at 10 requests/s: one run of few requests does not tell" in unknown.sentence
    assert "the difference is 8 good requests/s of 9." in unknown.sentence


def test_intervals_are_of_what_can_be() -> None:
    """Of two seeds Student's t is 12.7: 0.9 ± 0.64 would be more than all requests, and a difference more than all."""
    first, second = [run(0.85), run(0.95)], [run(0.0), run(0.1)]
    share, good = figure(first, SHARE), figure(first, GOOD)
    assert share is not None
    assert good is not None
    assert (share.low, share.high) == (pytest.approx(0.9 - 12.7062 * 0.05), 1.0)
    assert (good.low, good.high) == (pytest.approx(9.0 - 12.7062 * 0.5), 10.0)
    low = figure(second, GOOD)
    assert low is not None
    assert (low.value, low.low) == (pytest.approx(0.5), 0.0)
    found = good_difference([run(0.9), run(1.0)], [run(0.2), run(0.0)])
    assert found is not None
    assert (found.value, found.high) == (pytest.approx(8.5), 10.0)
    times = figure([run(0.9, **{"ttft_s.p99": 0.1}), run(0.9, **{"ttft_s.p99": 0.5})], "ttft_s.p99")
    assert times is not None
    assert (times.value, times.low) == (pytest.approx(0.3), 0.0)


def test_how_the_arrivals_of_a_seed_fell_is_no_spread_of_a_deployment() -> None:
    runs = [run(0.9, due) for due in (8.0, 10.0, 12.0)]
    good, share = figure(runs, GOOD), figure(runs, SHARE)
    assert good is not None
    assert share is not None
    assert (good.value, good.low, good.high) == pytest.approx((9.0, 9.0, 9.0))
    assert share.value == pytest.approx(0.9)
    assert figure(runs, "ttft_s.p99") is None


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ([1.0, 0.8, 0.2], Held(2.0, 4.0, pytest.approx(3.0))),
        ([1.0, 1.0, 0.9], Held(8.0, None, None)),
        ([0.5, 0.2, 0.0], Held(None, 2.0, None)),
        ([0.95, 0.9, 0.4], Held(4.0, 8.0, pytest.approx(4.0))),
        ([1.0, 0.8, 0.95], Held(2.0, 4.0, pytest.approx(3.0), (8.0,))),
        ([0.5, 0.9, 0.95], Held(None, 2.0, None, (4.0, 8.0))),
    ],
)
def test_up_to_which_of_the_measured_rates_most_requests_are_good(shares: Sequence[float], found: Held) -> None:
    assert held([2.0, 4.0, 8.0], shares) == found
