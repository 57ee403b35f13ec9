"""Numbers of a load by chance: one seed, and a generator of its own for each purpose.

With generators apart, another rate changes no length and another share of cancellations no due time.
"""

from __future__ import annotations

import enum
import hashlib
import math

import msgspec
import numpy as np
import numpy.typing as npt

from baton.services.loadgen.load_errors import BadLoad

MAX_SIGMA = 4  #: of a log-normal spread: more is a slip of the hand


class Purpose(enum.IntEnum):
    """What a generator is for. Part of what a seed means: numbers are never reused."""

    ARRIVALS = 1
    INPUT_LENGTHS = 2
    OUTPUT_LENGTHS = 3
    GROUPS = 4
    TURNS = 5
    THINK_TIMES = 6
    CANCELLATIONS = 7
    WARM_UP_ARRIVALS = 8
    WARM_UP_LENGTHS = 9


def generator(seed: int, purpose: Purpose) -> np.random.Generator:
    return np.random.default_rng([seed, purpose])


def derived_seed(seed: int, number: int) -> int:
    """Another seed of 63 bits, the same for the same two numbers. Number 0 gives the seed itself."""
    if number == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How numbers spread: normal where `std` is positive, log-normal where `sigma` is, else uniform; always within
    `[low, high]`."""

    low: float
    high: float
    mean: float = 0.0  #: of a log-normal spread its median
    std: float = 0.0
    sigma: float = 0.0  #: standard deviation of the logarithm

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        if self.std > 0:
            return np.clip(rng.normal(self.mean, self.std, count), self.low, self.high)
        if self.sigma > 0:
            return np.clip(rng.lognormal(math.log(self.mean), self.sigma, count), self.low, self.high)
        return rng.uniform(self.low, self.high, count)

    def draw_whole(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        """Whole numbers; where the spread is uniform, both ends are as likely as any between them."""
        if self.std > 0 or self.sigma > 0:
            return np.rint(self.draw(rng, count)).astype(np.int64)
        return rng.integers(int(self.low), int(self.high), count, endpoint=True)


def parse_spread(text: str, what: str, *, least: float, is_whole: bool) -> Spread:
    """`N`, `uniform:A-B`, `normal:MEAN,STD` or `lognormal:MEDIAN,SIGMA`, the last two with an optional `,A-B` to keep
    within. Raises BadLoad, which names `what`. No number may be below `least`."""
    kind, colon, rest = text.strip().partition(":")
    try:
        if not colon:
            value = _number(kind, is_whole)
            spread = Spread(low=value, high=value)
        elif kind == "uniform":
            low, high = _ends(rest, is_whole)
            spread = Spread(low=low, high=high)
        elif kind in ("normal", "lognormal"):
            middle, width, *ends = rest.split(",")
            low, high = _ends(ends[0], is_whole) if ends else (least, math.inf)
            widths = {"std" if kind == "normal" else "sigma": _number(width, False)}
            spread = Spread(low=low, high=high, mean=_number(middle, False), **widths)
        else:
            raise ValueError(text)
    except ValueError:
        raise BadLoad(
            f"{what} {text!r} is none of N, uniform:A-B, normal:MEAN,STD, lognormal:MEDIAN,SIGMA, and either with ,A-B"
        ) from None
    return _checked(spread, text, what, least, kind)


def _checked(spread: Spread, text: str, what: str, least: float, kind: str) -> Spread:
    if spread.low < least:
        raise BadLoad(f"{what} {text!r}: {spread.low:g} is below {least:g}")
    if spread.low > spread.high:
        raise BadLoad(f"{what} {text!r}: {spread.low:g} is above {spread.high:g}")
    if kind == "normal" and spread.std <= 0:
        raise BadLoad(f"{what} {text!r}: the standard deviation must be above 0")
    if kind == "lognormal" and not (spread.mean > 0 and 0 < spread.sigma <= MAX_SIGMA):
        raise BadLoad(f"{what} {text!r}: the median must be above 0, the deviation of the logarithm up to {MAX_SIGMA}")
    return spread


def _number(text: str, is_whole: bool) -> float:
    value = int(text) if is_whole else float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _ends(text: str, is_whole: bool) -> tuple[float, float]:
    low, high = text.split("-")
    return _number(low, is_whole), _number(high, is_whole)
