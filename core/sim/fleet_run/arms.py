"""A scenario of several arms that reproduces what others published before it says anything of ours.

The file is a scenario with `[[arms]]`: what is set otherwise in each, and the figures that were published of it. An arm
without published figures is shown only if all of those are within a tenth of what was published, but for the ones that
the file names as not calibrated, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec

from baton.core.metrics.goodput import NO_SLO, Goodput, Slo
from baton.core.metrics.percentiles import describe
from baton.core.metrics.summary import Summary, summarize
from baton.core.sim.fleet_run.figure_names import GAUGE, KEPT, OVER, RATE, UnknownFigure, check_figure
from baton.core.sim.fleet_run.goodput import RateSearch
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import BadScenario, RunScenario, make_scenario, set_value

TOLERANCE = 0.1
KEYS = ("arms", "loads", "uncalibrated", "figures", "orders", "goodput")
RATE_KNOB = "load.rate"  #: that a search of rates varies


class Arm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way of doing things."""

    name: str
    set: dict[str, Any] = {}  #: fields and knobs, as `--set` has them
    published: dict[str, float] = {}  #: by the name of a figure
    over: str = ""  #: an arm that stands before it: figures named `x ÷ over` are ratios to that arm's
    gpus: Annotated[int, msgspec.Meta(ge=1)] = 1  #: accelerators of the whole fleet, of which a rate is told for each


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One load of several, each of which every arm gets."""

    name: str
    set: dict[str, Any] = {}


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold between arms, or the scenario fails."""

    figure: str
    arms: Annotated[tuple[str, ...], msgspec.Meta(min_length=2)]  #: each one's figure is below the next one's


class Arms(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    arms: tuple[Arm, ...]
    loads: tuple[Load, ...] = ()  #: published figures are of no load, so that there are none beside several
    figures: tuple[str, ...] = ()  #: shown of every arm, besides the published ones
    uncalibrated: dict[str, str] = {}  #: `arm: figure` → why it is not reproduced
    orders: tuple[Order, ...] = ()
    goodput: RateSearch | None = None  #: each arm is run at its highest rate that keeps the SLO, in place of one


class Compared(NamedTuple):
    """One figure of one arm."""

    arm: str
    figure: str
    published: float | None
    simulated: float
    excuse: str  #: why it need not be reproduced

    @property
    def is_off(self) -> bool:
        if self.published is None or self.excuse:
            return False
        return abs(self.simulated - self.published) > TOLERANCE * abs(self.published)


def split_arms(table: dict[str, Any]) -> Arms | None:
    """Takes the arms out of a scenario's table; None for a plain scenario. Raises BadScenario, UnknownFigure."""
    if "arms" not in table:
        return None
    taken = {key: table.pop(key) for key in KEYS if key in table}
    try:
        arms = msgspec.convert(taken, Arms, strict=False)
    except msgspec.ValidationError as error:
        raise BadScenario(str(table.get("name", "scenario")), str(error), "arms") from error
    if arms.loads:
        if any(arm.published or arm.over for arm in arms.arms):
            raise BadScenario(str(table.get("name")), "beside several loads there are no published figures", "loads")
        arms = msgspec.structs.replace(arms, arms=_with_loads(arms), loads=())
    _check_names(arms, str(table.get("name")))
    return arms


def _check_names(arms: Arms, scenario: str) -> None:
    """Of arms and figures. Raises BadScenario, UnknownFigure."""
    names = [arm.name for arm in arms.arms]
    for number, arm in enumerate(arms.arms):
        if arm.over and arm.over not in names[:number]:
            raise BadScenario(scenario, f"{arm.over!r} is no arm before it", f"arms.{arm.name}.over")
    for order in arms.orders:
        unknown = [name for name in order.arms if name not in names]
        if unknown:
            raise BadScenario(scenario, f"{unknown[0]!r} is no arm", "orders")
    published = [name for arm in arms.arms for name in arm.published]
    for figure in (*arms.figures, *published, *(order.figure for order in arms.orders)):
        check_figure(figure)
        if figure == RATE and arms.goodput is None:
            raise BadScenario(scenario, f"only a search of rates gives {RATE}", "goodput")


def _with_loads(arms: Arms) -> tuple[Arm, ...]:
    return tuple(
        msgspec.structs.replace(arm, name=f"{load.name}: {arm.name}", set=load.set | arm.set)
        for load in arms.loads
        for arm in arms.arms
    )


def scenario_of(table: Mapping[str, Any], arm: Arm) -> RunScenario:
    """The arm's own scenario. Raises BadScenario."""
    own: dict[str, Any] = msgspec.to_builtins(table)
    for setting, value in arm.set.items():
        if isinstance(value, dict):
            own[setting] = value
        else:
            set_value(own, f"{setting}={value}")
    return make_scenario(own)


def that_set(arms: Arms, path: str) -> list[str]:
    """The arms that set this field or knob (`load.rate`) themselves, so that what the scenario says of it is lost."""
    if arms.goodput is not None and path == RATE_KNOB:
        return [arm.name for arm in arms.arms]
    return [arm.name for arm in arms.arms if path in arm.set or path.partition(".")[0] in arm.set]


def at_rate(arm: Arm, rate_per_gpu: float) -> Arm:
    """The arm under a load of so many requests per second and accelerator."""
    return msgspec.structs.replace(arm, set=arm.set | {RATE_KNOB: rate_per_gpu * arm.gpus})


class Figures:
    """The figures of one run, which it does not keep, by name:

    `output_tokens_per_s`, `requests_per_s`, `prefix_hit_rate`; `<distribution>.<statistic>` of the report, such as
    `tpot_s.p95`; `kept`, the share of requests that keep the whole SLO, and `kept.<bound>`, such as `kept.ttft_s`;
    `goodput_per_gpu`, the rate that a search found;
    `<stage>→<stage>.<statistic>` in seconds, of the stages that executors mark; `gauge:<process>:<name>`;
    `prefill_steps`, `prefill_tokens`, `shared_share` (of the steps with prompts, those with more than one).
    """

    def __init__(self, run: FleetRun, slo: Slo = NO_SLO, rate_per_gpu: float | None = None) -> None:
        self._rate_per_gpu = rate_per_gpu
        self._summary: Summary = summarize(run.facts, slo)
        self._gauges = run.gauges
        self._of_steps = _of_steps(run)
        self._stages = _stages(run)

    def value(self, name: str) -> float:
        """Raises UnknownFigure."""
        summary = self._summary
        if name in ("output_tokens_per_s", "requests_per_s"):
            return float(getattr(summary.throughput, name) or 0.0)
        if name.startswith(GAUGE):
            _, process, gauge = name.split(":", 2)
            if process not in self._gauges:
                raise UnknownFigure(f"there is no figure {name!r}: processes are {', '.join(self._gauges)}")
            return float(self._gauges[process].get(gauge, 0.0))
        if name in self._of_steps:
            return self._of_steps[name]
        if name == "prefix_hit_rate":
            return summary.prefix_hit_rate or 0.0
        if name == RATE and self._rate_per_gpu is not None:
            return self._rate_per_gpu
        if summary.goodput is not None and name == "kept":
            return summary.goodput.share or 0.0
        if summary.goodput is not None and name.startswith(KEPT):
            return self._kept(summary.goodput, name)
        what, _, statistic = name.rpartition(".")
        if "→" in what:
            return float(getattr(describe(self._between(*what.split("→"))), statistic) or 0.0)
        if what in summary.distributions:
            return float(getattr(summary.distributions[what], statistic) or 0.0)
        raise UnknownFigure(f"there is no figure {name!r}")

    def _kept(self, goodput: Goodput, name: str) -> float:
        bound = name.removeprefix(KEPT)
        if bound not in goodput.attainment:
            raise UnknownFigure(f"there is no figure {name!r}: the SLO has no such bound")
        return goodput.attainment[bound]

    def _between(self, first: str, last: str) -> list[float]:
        found = self._stages
        ends = [(request, at) for (request, stage), at in found.items() if stage == last and (request, first) in found]
        return [at - found[request, first] for request, at in ends]


def _of_steps(run: FleetRun) -> dict[str, float]:
    """Figures of the steps with prompts."""
    steps = [step.features for step in run.recorder.steps if step.features.prompts]
    return {
        "prefill_steps": float(len(steps)),
        "prefill_tokens": float(sum(step.tokens for step in steps)),
        "shared_share": sum(step.prompts > 1 for step in steps) / max(1, len(steps)),
    }


def _stages(run: FleetRun) -> dict[tuple[int, str], float]:
    """When each request was at each stage that executors mark."""
    found: dict[tuple[int, str], float] = {}
    for note in run.recorder.notes:
        if note.what.endswith(" ended") and "admitted_s" in note.numbers:
            for name, value in note.numbers.items():
                if name.endswith("_ms"):
                    found[note.request_id, name.removesuffix("_ms")] = note.numbers["admitted_s"] + value / 1e3
    return found


def compare(arms: Arms, arm: Arm, values: Mapping[str, Figures]) -> Iterator[Compared]:
    """Of one arm that was run; `values` has it and those before it."""
    for name in dict.fromkeys([*arm.published, *arms.figures]):
        plain = name.removesuffix(OVER)
        value = values[arm.name].value(plain)
        if plain != name:
            if not arm.over:
                continue
            value /= values[arm.over].value(plain)
        excuse = arms.uncalibrated.get(f"{arm.name}: {name}", "")
        yield Compared(arm.name, name, arm.published.get(name), value, excuse)


def check(order: Order, values: Mapping[str, Figures]) -> tuple[str, bool]:
    """In one line, and whether it holds."""
    found = [(name, values[name].value(order.figure)) for name in order.arms]
    holds = all(first < second for (_, first), (_, second) in pairwise(found))
    told = " < ".join(f"{name} {value:.4g}" for name, value in found)
    return f"{order.figure}: {told}{'' if holds else ': does not hold'}", holds
