"""Two deployments over a range of rates: who serves more good requests where, by how much, and why, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.crossing import Better, Crossing, Point, Region, crossings, regions
from baton.core.sim.study.measured import GOOD, SHARE, Measured
from baton.core.sim.study.pairs import figure, good_difference
from baton.core.sim.study.reasons import reason
from baton.core.sim.study.sides import Side
from baton.core.sim.study.texts import number, percent, with_interval

KEPT_SHARE = 0.9  #: a load is held while so many of its requests are good
FEW = 0.01  #: nobody would call a deployment good that keeps the SLO for fewer


class AtRate(NamedTuple):
    """Both deployments under one load; run i of both had one seed."""

    rate: float
    first: Sequence[Measured]
    second: Sequence[Measured]


class Held(NamedTuple):
    """Up to where a deployment serves enough of the requests well, of the rates that were measured."""

    last: float | None  #: the highest one below which none was lost; None: the first was
    lost: float | None  #: the lowest that it does not hold; None: it holds all
    between: float | None  #: where it would be if the share were linear between the two
    again: tuple[float, ...] = ()  #: rates above `lost` that it holds


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    sentence: str
    reason: str  #: of the largest difference; empty where there is none
    better: tuple[tuple[float, float, str], ...]  #: from which measured rate to which one, whose name; "" for neither
    crossings: tuple[Crossing, ...]


class Named(NamedTuple):
    """How the two and the rates are called."""

    first: str
    second: str
    unit: str = "requests/s"

    def name(self, better: Better) -> str:
        return {Better.FIRST: self.first, Better.SECOND: self.second, Better.NEITHER: ""}[better]


def point(at: AtRate) -> Point | None:
    """None where no request was judged."""
    difference = good_difference(at.first, at.second)
    first, second = figure(at.first, GOOD), figure(at.second, GOOD)
    if difference is None or first is None or second is None:
        return None
    return Point(at.rate, difference, max(first.value, second.value))


def judge(found: Sequence[AtRate], named: Named, slo: Slo) -> Verdict:
    """`found` in the order of ascending rates, at least one."""
    points = [each for at in found if (each := point(at)) is not None]
    areas, turns = regions(points), crossings(points)
    better = tuple((area.begin, area.end, named.name(area.better)) for area in areas)
    decided = [area for area in areas if area.better is not Better.NEITHER]
    if not decided:
        return Verdict(sentence=_no_difference(found, points, named), reason="", better=better, crossings=())
    main = max(decided, key=lambda area: _part(area.largest))
    at = next(each for each in found if each.rate == main.largest.rate)
    sides = Side(named.first, at.first), Side(named.second, at.second)
    winner, loser = sides if main.better is Better.FIRST else sides[::-1]
    why = reason(loser, winner, slo)
    parts = [f"{winner.name} serves more good requests than {loser.name} {_range(main, named)}"]
    parts[0] += f", {_by_how_much(at, main)}, because {why}"
    parts += [
        f"{named.name(area.better)} does {_range(area, named)}, {_by_how_much(_of(found, area), area)}"
        for area in decided
        if area is not main
    ]
    parts += [_turn(turn, named) for turn in turns]
    even = [_range(area, named) for area in areas if area.better is Better.NEITHER]
    if even:
        parts.append(f"no difference beyond noise {' and '.join(even)}")
    return Verdict(sentence="; ".join(parts) + ".", reason=why, better=better, crossings=tuple(turns))


def held(rates: Sequence[float], shares: Sequence[float], least: float = KEPT_SHARE) -> Held:
    """Of rates that ascend, and the share of good requests at each."""
    lost = next((index for index, share in enumerate(shares) if share < least), None)
    if lost is None:
        return Held(rates[-1], None, None)
    again = tuple(rate for rate, share in zip(rates[lost:], shares[lost:], strict=True) if share >= least)
    if not lost:
        return Held(None, rates[0], None, again)
    part = (shares[lost - 1] - least) / (shares[lost - 1] - shares[lost])
    return Held(rates[lost - 1], rates[lost], rates[lost - 1] + part * (rates[lost] - rates[lost - 1]), again)


def _no_difference(found: Sequence[AtRate], points: Sequence[Point], named: Named) -> str:
    where = _rates(found[0].rate, found[-1].rate, named)
    shares = [figure(runs, SHARE) for at in found for runs in (at.first, at.second)]
    if not any(share is not None and share.value > FEW for share in shares):
        return (
            f"Neither {named.first} nor {named.second} keeps the SLO {where}: fewer than 1 % of the requests are good."
        )
    text = f"No difference beyond noise between {named.first} and {named.second} {where}"
    if not points:
        return f"{text}."
    largest = max(points, key=_part)
    told = f"{with_interval(largest.difference)} good requests/s of {number(largest.scale)}"
    told += "" if len(points) == 1 else f" (largest at {number(largest.rate)})"
    if all(each.difference.low is None for each in points):
        both = f"{named.first} and {named.second} cannot be told apart {where}"
        return f"{both}: one run of few requests does not tell what is noise; the difference is {told}."
    return f"{text}: {told}."


def _part(of: Point) -> float:
    return abs(of.difference.value) / (abs(of.scale) or 1.0)


def _of(found: Sequence[AtRate], area: Region) -> AtRate:
    return next(at for at in found if at.rate == area.largest.rate)


def _by_how_much(at: AtRate, area: Region) -> str:
    first, second = figure(at.first, GOOD), figure(at.second, GOOD)
    assert first is not None
    assert second is not None
    more, less = (first, second) if area.better is Better.FIRST else (second, first)
    told = f"{with_interval(more)} against {with_interval(less)} per second at {number(at.rate)}"
    if not less.value:
        return told
    ratio = more.value / less.value
    return f"up to {percent(ratio - 1)} more ({told})" if ratio < 2 else f"up to {number(ratio)} times as many ({told})"


def _turn(turn: Crossing, named: Named) -> str:
    where = f"{number(turn.rate)} ({number(turn.low)} to {number(turn.high)}) {named.unit}"
    return f"they cross at {where}, interpolated between {number(turn.begin)} and {number(turn.end)}"


def _range(area: Region, named: Named) -> str:
    return _rates(area.begin, area.end, named)


def _rates(begin: float, end: float, named: Named) -> str:
    if begin == end:
        return f"at {number(begin)} {named.unit}"
    return f"from {number(begin)} to {number(end)} {named.unit}"
