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


FORM = "is neither A,B,… nor FROM:TO:STEP nor FROM:TO:FACTORx"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", FORM),
        ("x", FORM),
        ("1:8", FORM),
        ("1:2:3:4", FORM),
        ("1:x:2", FORM),
        ("0,1", ": they are above 0 and finite"),
        ("-1", ": they are above 0 and finite"),
        ("inf", ": they are above 0 and finite"),
        ("nan", ": they are above 0 and finite"),
        ("4,1,4.0", ": 4 twice"),
        ("8:1:2x", ": FROM is above 0 and at most TO"),
        ("0:8:2", ": FROM is above 0 and at most TO"),
        ("1_000", FORM),
        ("1:1_0:2", FORM),
        ("٣", FORM),
        ("1:inf:2x", ": FROM is above 0 and at most TO"),
        ("1:8:1x", ": FACTOR is above 1 and finite"),
        ("1:8:nanx", ": FACTOR is above 1 and finite"),
        ("1:8:0", ": STEP is above 0 and finite"),
        ("1:1.02:0.005", ": at 3 digits two of them are 1: a larger step"),
        ("10:10.2:1.003x", ": at 3 digits two of them are 10: a larger step"),
        (f"1:{MAX_RATES}:0.5", f": more than {MAX_RATES}"),
        (",".join(str(1 + number) for number in range(MAX_RATES + 1)), f": more than {MAX_RATES}"),
    ],
)
def test_what_names_no_rates_is_told_and_why(text: str, why: str) -> None:
    with pytest.raises(BadRates) as refused:
        parse_rates(text)
    assert str(refused.value).removeprefix(f"rates: {text!r}").strip() == why.strip()


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
