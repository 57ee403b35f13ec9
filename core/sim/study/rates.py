"""Which rates a comparison runs at: those that were asked for, or those between light load and more than either
deployment can serve."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import NamedTuple

from baton.core.errors import ServingError

MAX_RATES = 64
NUM_RATES = 7  #: of those that are found
EASY, LOST = 0.99, 0.5  #: shares of good requests: all is well, and far past what can be served
MOST_UP, MOST_DOWN = 12, 3  #: doublings, and quarterings where light load is not light enough
DIGITS = 3


class Seen(NamedTuple):
    """At one rate."""

    shares: Sequence[float]  #: of good requests, of each deployment
    is_burst: bool = False  #: the load is too small for a higher rate


#: gives rates to run, takes what was seen there
Search = Generator[float, Seen, tuple[float, ...]]


class BadRates(ServingError):
    """The text names no rates."""


def parse_rates(text: str) -> tuple[float, ...]:
    """`1,2,4.5`, `1:16:1.5x` (each 1.5 times the one before) or `1:16:3` (each 3 more). Ascending. Raises BadRates."""
    is_span = ":" in text
    try:
        found = _span(text) if is_span else [_number(part) for part in text.split(",")]
    except ValueError:
        raise BadRates(f"rates: {text!r} is neither A,B,… nor FROM:TO:STEP nor FROM:TO:FACTORx") from None
    if not all(0 < rate < math.inf for rate in found):
        raise BadRates(f"rates: {text!r}: they are above 0 and finite")
    if len(found) > MAX_RATES:
        raise BadRates(f"rates: {text!r}: more than {MAX_RATES}")
    rates = sorted(set(found))
    if len(rates) < len(found):
        alike = next(rate for rate in rates if found.count(rate) > 1)
        why = f"at {DIGITS} digits two of them are {alike:g}: a larger step" if is_span else f"{alike:g} twice"
        raise BadRates(f"rates: {text!r}: {why}")
    return tuple(rates)


def _span(text: str) -> list[float]:
    """Raises ValueError for another form, BadRates for numbers that make none."""
    first, last, step = text.split(":")
    is_factor = step.endswith("x")
    low, high, by = _number(first), _number(last), _number(step.removesuffix("x"))
    if not 0 < low <= high < math.inf:
        raise BadRates(f"rates: {text!r}: FROM is above 0 and at most TO")
    if not (1 if is_factor else 0) < by < math.inf:
        raise BadRates(f"rates: {text!r}: {'FACTOR is above 1' if is_factor else 'STEP is above 0'} and finite")
    found = [low]
    while len(found) <= MAX_RATES and (after := found[-1] * by if is_factor else found[-1] + by) <= high * (1 + 1e-9):
        found.append(after)
    return [rounded(rate) for rate in found]


def _number(text: str) -> float:
    """As others write numbers, too: Python takes 1_000 and digits of all scripts. Raises ValueError."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def find_rates(light: float) -> Search:
    """From `light` down until all is well for both, and up by doubling until neither serves half of the requests well,
    or the load comes as one burst; then `NUM_RATES` in even ratios from the last rate at which all was well on, or from
    the lightest."""
    rate = rounded(light)
    seen = yield rate
    for _ in range(MOST_DOWN):
        if min(seen.shares) >= EASY:
            break
        rate = rounded(rate / 4)
        seen = yield rate
    low = lightest = rate
    for _ in range(MOST_UP):
        if _is_over(seen):
            break
        rate = rounded(rate * 2)
        seen = yield rate
        if min(seen.shares) >= EASY:
            low = rate
    return between(low if _is_over(seen) and low < rate else lightest, rate)


def _is_over(seen: Seen) -> bool:
    return max(seen.shares) < LOST or seen.is_burst


def between(low: float, high: float, count: int = NUM_RATES) -> tuple[float, ...]:
    """In even ratios, both ends included; one alone where they are the same."""
    if high <= low:
        return (low,)
    return tuple(rounded(low * (high / low) ** (number / (count - 1))) for number in range(count))


def rounded(rate: float) -> float:
    """Rates are told with few digits, and are exactly what is told."""
    return float(f"{rate:.{DIGITS}g}")
