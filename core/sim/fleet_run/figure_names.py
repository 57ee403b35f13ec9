"""Which figures a scenario's arms may name: told before anything is run."""

from __future__ import annotations

from typing import get_args

from baton.core.errors import ServingError
from baton.core.executor.marks import Stage
from baton.core.metrics.definitions import UNITS
from baton.core.metrics.goodput import Slo
from baton.core.metrics.percentiles import Distribution
from baton.core.sim.fleet_run.scenario_file import near

GAUGE = "gauge:"  #: `gauge:<process>:<name>`
OVER = " ÷ over"  #: at the end: the ratio to another arm's figure
KEPT = "kept."  #: share of requests that keep one bound of the SLO
RATE = "goodput_per_gpu"  #: that a search of rates gives
OF_STEPS = ("prefill_steps", "prefill_tokens", "shared_share")
SINGLE = ("output_tokens_per_s", "requests_per_s", "prefix_hit_rate", RATE, "kept", *OF_STEPS)

_STATISTICS = Distribution.__struct_fields__
_STAGES = get_args(Stage)


class UnknownFigure(ServingError):
    """A scenario asks for a figure that there is not."""


def check_figure(name: str) -> None:
    """Raises UnknownFigure for one that no run gives."""
    plain = name.removesuffix(OVER)
    what, _, statistic = plain.rpartition(".")
    if plain in SINGLE or (plain.startswith(GAUGE) and plain.count(":") == 2):
        return
    if plain.startswith(KEPT):
        _check(name, "bound of an SLO", statistic, Slo.__struct_fields__)
    elif not what:
        _check(name, "figure", plain, (*SINGLE, *UNITS))
        raise UnknownFigure(f"figure {name!r}: of {plain} say which statistic, such as {plain}.p50")
    else:
        for stage in what.split("→") if "→" in what else ():
            _check(name, "stage", stage, _STAGES)
        if "→" not in what:
            _check(name, "figure", what, UNITS)
        _check(name, "statistic", statistic, _STATISTICS)


def _check(name: str, kind: str, word: str, known: tuple[str, ...] | dict[str, str]) -> None:
    if word not in known:
        there_are = near(word, known) or f"; there are {', '.join(known)}"
        raise UnknownFigure(f"figure {name!r}: {word!r} is no {kind}{there_are}")
