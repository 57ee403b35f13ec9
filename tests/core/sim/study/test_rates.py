"""The rates of a comparison: asked for, and found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from baton.core.sim.study.rates import MAX_RATES, NUM_RATES, BadRates, Seen, find_rates, parse_rates


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("4", (4.0,)),
        ("1,2,4.5", (1.0, 2.0, 4.5)),
        ("4,1", (1.0, 4.0)),
        ("1:8:2x", (1.0, 2.0, 4.0, 8.0)),
        ("1:5:1.5x", (1.0, 1.5, 2.25, 3.38)),
        ("1:10:4", (1.0, 5.0, 9.0)),
        ("0.1:0.3:0.1", (0.1, 0.2, 0.3)),
        ("2:2:1", (2.0,)),
    ],
)
def test_rates_as_they_are_written(text: str, rates: tuple[float, ...]) -> None:
    assert parse_rates(text) == rates


@pytest.mark.parametrize(
    "text",
    ["", "x", "0,1", "-1", "1,1", "inf", "nan", "1:8", "1:8:1x", "1:8:0", "8:1:2x", "1:2:3:4", f"1:{MAX_RATES}:0.5"],
)
def test_what_names_no_rates_is_told(text: str) -> None:
    with pytest.raises(BadRates, match="rates"):
        parse_rates(text)


def searched(
    light: float, shares: Callable[[float], tuple[float, float]], burst: float = 1e9
) -> tuple[list[float], tuple[float, ...]]:
    """What was asked for, and what was found. The load is too small from the rate `burst` on."""
    search, asked = find_rates(light), []
    rate = next(search)
    while True:
        asked.append(rate)
        try:
            rate = search.send(Seen(shares(rate), rate >= burst))
        except StopIteration as found:
            return asked, found.value


def knee(at: float, rate: float) -> float:
    return 1.0 if rate <= at else at / rate / 1.5


def test_rates_are_found_around_what_both_can_serve() -> None:
    asked, rates = searched(0.5, lambda rate: (knee(6.0, rate), knee(9.0, rate)))
    assert asked == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert (rates[0], rates[-1], len(rates)) == (4.0, 16.0, NUM_RATES)
    assert list(rates) == sorted(rates)


def test_a_light_load_that_is_too_heavy_is_made_lighter() -> None:
    asked, rates = searched(100.0, lambda rate: (knee(6.0, rate), knee(9.0, rate)))
    assert asked[:4] == [100.0, 25.0, 6.25, 1.56]
    assert (rates[0], rates[-1]) == (3.12, 12.5)


def test_a_search_ends_where_nothing_is_ever_served_well_or_always() -> None:
    asked, rates = searched(1.0, lambda rate: (0.0, 0.0))
    assert len(asked) == 4
    assert rates == (0.0156,)
    asked, rates = searched(1.0, lambda rate: (1.0, 1.0))
    assert len(asked) == 13
    assert (rates[0], rates[-1], len(rates)) == (1.0, 4080.0, NUM_RATES)


def test_a_search_ends_where_the_load_comes_as_one_burst() -> None:
    asked, rates = searched(1.0, lambda rate: (1.0, 1.0), burst=6.0)
    assert asked == [1.0, 2.0, 4.0, 8.0]
    assert (rates[0], rates[-1], len(rates)) == (1.0, 8.0, NUM_RATES)
    asked, rates = searched(1.0, lambda rate: (1.0, knee(2.5, rate)), burst=6.0)
    assert (asked[-1], rates[0], rates[-1]) == (8.0, 2.0, 8.0)
    assert searched(1.0, lambda rate: (1.0, 1.0), burst=0.5) == ([1.0], (1.0,))
