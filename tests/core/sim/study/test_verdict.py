"""The sentence that says who is better where and why, of made-up runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.measured import GOOD, SHARE, Measured
from baton.core.sim.study.pairs import figure, good_difference
from baton.core.sim.study.reasons import Side, reason
from baton.core.sim.study.uses import RoleUse
from baton.core.sim.study.verdict import AtRate, Named, held_rate, judge
from tests.core.sim.study.made_up import USE, WAITS, run

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
    assert f"they cross at {turn.rate:.3g} ({turn.low:.3g} to {turn.high:.3g}) requests/s" in verdict.sentence


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
    assert judge([AtRate(10.0, *alone)], NAMED, SLO).better == ((10.0, 10.0, ""),)


def test_how_the_arrivals_of_a_seed_fell_is_no_spread_of_a_deployment() -> None:
    runs = [run(0.9, due) for due in (8.0, 10.0, 12.0)]
    good, share = figure(runs, GOOD), figure(runs, SHARE)
    assert good is not None
    assert share is not None
    assert (good.value, good.low, good.high) == pytest.approx((9.0, 9.0, 9.0))
    assert share.value == pytest.approx(0.9)
    assert figure(runs, "ttft_s.p99") is None


def sides(loser: dict[str, RoleUse], winner: dict[str, RoleUse], bound: str, **waits: float) -> tuple[Side, Side]:
    kept = {"ttft_s": 1.0, "itl_s": 1.0}
    bad = run(0.3, attainment=kept | {bound: 0.3}, uses=loser, waits=msgspec.structs.replace(WAITS, **waits))
    return Side("A", [bad]), Side("B", [run(1.0, attainment=kept, uses=winner)])


def use(**changed: float) -> RoleUse:
    return msgspec.structs.replace(USE, **changed)


REPLICAS = {"unified": use(count=2, decodes=52, decode_step_s=0.028, mixed_step_s=0.11, mixed_share=0.3, busy=0.97)}


@pytest.mark.parametrize(
    ("loser", "bound", "waits", "says"),
    [
        (REPLICAS, "itl_s", {}, "prompts share its steps, where a step with a prompt takes 110 ms, one without 28 ms"),
        (REPLICAS, "ttft_s", {"placed_p90_s": 3.2}, "in one step of 110 ms, 97 % of the time, and requests wait 3.2 s"),
        (
            {"prefill": use(busy=0.98), "decode": use(busy=0.8)},
            "ttft_s",
            {"placed_p90_s": 2.0},
            "1 prefill executor computes 98 % of the time while its 1 decode executor computes 80 %, and requests wait",
        ),
        (
            {"prefill": use(busy=0.2), "decode": use(kv_use=0.7, decodes=110, busy=1.0)},
            "ttft_s",
            {"placed_p90_s": 2.0},
            "holds 70 % of its KV memory with 110 sequences at once, and requests wait 2 s (p90) for a place, "
            "while its 1 prefill executor is idle 80 % of the time",
        ),
        (
            {"prefill": use(count=2, busy=0.1), "decode": use(decodes=110, decode_step_s=0.06)},
            "itl_s",
            {},
            "decode on 1 executor, 110 at once on each (B: 52), so that a step takes 60 ms (28 ms), "
            "while its 2 prefill executors are idle 90 % of the time",
        ),
        (
            {"prefill": use(), "decode": use(decodes=10, decode_step_s=0.02)},
            "itl_s",
            {"handed_over_p50_s": 0.3},
            "the hand-off of KV takes 300 ms (p50) between an answer's first two tokens",
        ),
        (
            {"prefill": use(), "decode": use(decode_step_s=0.02, mixed_step_s=0.2, mixed_share=0.1)},
            "itl_s",
            {"prompts_on_decode": 0.4},
            "its decode executors compute 40 % of the prompts themselves, and a step with a prompt takes 200 ms",
        ),
        (
            {"prefill": use(), "decode": use()},
            "ttft_s",
            {"computed_p90_s": 1.4},
            "a prompt takes 1.4 s (p90) from its placement to its first token",
        ),
    ],
)  # fmt: skip
def test_the_reason_is_what_the_runs_show(
    loser: dict[str, RoleUse], bound: str, waits: dict[str, float], says: str
) -> None:
    found = reason(*sides(loser, REPLICAS, bound, **waits), SLO)
    assert says in found
    told = {"ttft_s": "TTFT ≤ 1 s", "itl_s": "ITL (p99 of a request) ≤ 50 ms"}
    assert found.startswith(f"A keeps {told[bound]} for 30 %")


@pytest.mark.parametrize(
    ("shares", "rate"),
    [([1.0, 0.8, 0.2], 3.0), ([1.0, 1.0, 0.9], None), ([0.5, 0.2, 0.0], None), ([0.95, 0.9, 0.4], 4.0)],
)
def test_up_to_which_rate_most_requests_are_good(shares: Sequence[float], rate: float | None) -> None:
    assert held_rate([2.0, 4.0, 8.0], shares) == (None if rate is None else pytest.approx(rate))
