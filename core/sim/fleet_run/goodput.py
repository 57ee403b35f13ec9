"""The highest rate at which a deployment keeps its objectives: its goodput, as papers on prefill and decode apart use
the word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import Slo
from baton.core.metrics.summary import summarize


class RateSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests per second and accelerator."""

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.9  #: of the requests that must keep each bound of the SLO
    most: Annotated[float, msgspec.Meta(gt=0, le=1e6)]  #: rates looked at are below
    within: Annotated[float, msgspec.Meta(gt=0, le=1e6)]  #: how near to the first that fails the answer is


def highest_rate(keeps: Callable[[float], bool], most: float, within: float) -> float:
    """The highest rate found to be kept by bisection of 0 to `most`, at most `within` below one that is not kept or is
    `most`; 0.0 if none was kept. `keeps` is asked of rates above 0, a number of times that is the logarithm of
    `most / within`, and taken to fail at every rate above one at which it fails."""
    low, high = 0.0, most
    while high - low > within:
        middle = (low + high) / 2
        if keeps(middle):
            low = middle
        else:
            high = middle
    return low


def kept_share(facts: list[RequestFacts], slo: Slo) -> float:
    """Of the bounds of the SLO, the least share of requests that kept one: what is judged bound by bound, not request
    by request. 0.0 where nothing was judged or there is no bound."""
    found = summarize(facts, slo).goodput
    return min(found.attainment.values(), default=0.0) if found is not None else 0.0
