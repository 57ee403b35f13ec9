"""`baton sim --scenario NAME --data DIR` of a scenario that is compared with a measured run of a real engine.

The scenario has the engine's policies, the files its limits (`vllm_files`). Step times are composed from the kernel
times of the same card, with one constant of host time for each step; the requests are asked when they were asked there.
Nothing is fitted to the times that are compared.

The clients' clock is brought to the engine's by the smallest difference of a request's arrival and its queuing. TTFT
and E2E count from the arrival on both sides, so that the wait for the step under way is in both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baton.core.metrics.percentiles import Distribution, describe
from baton.core.metrics.summary import summarize
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import BadScenario, PlannedAsk, RunScenario, make_scenario
from baton.core.sim.step_time.fit import Fit
from baton.core.sim.step_time.kernels import Reach, compose
from baton.core.sim.step_time.profile import KvGeometry, Profile, encode_profile
from baton.services.loadgen.console import show_table
from baton.services.sim.load import SimLoad, load_of
from baton.services.sim.model_shapes import SHAPES, shape_of
from baton.services.sim.vllm_files import Engine, Measured, MeasuredRequest, read_measured

EXIT_OFF = 1
KEY = "measured"
VARIABLE = "BATON_DATA"  #: folder of data sets
SUBFOLDER = "vllm_groundtruth"
FIGURES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}
STATISTICS = ("mean", "p50", "p90", "p95", "p99")

Simulate = Callable[[RunScenario, SimLoad], FleetRun]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class MeasuredTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[measured]` of such a scenario."""

    tolerance: Share  #: of the judged figures: |simulated / measured − 1|
    judged: tuple[str, ...]  #: figure.statistic
    host_ms: Annotated[float, msgspec.Meta(ge=0, le=1000)]  #: between two steps, while the device does nothing
    num_layers: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0  #: of a model that is not known by its name


class Figure(NamedTuple):
    """One statistic, seconds."""

    name: str
    measured: float
    simulated: float
    is_judged: bool

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1 if self.measured else float(self.simulated > 0)


def run_ground_truth(table: dict[str, Any], data: str, console: Console, simulate: Simulate) -> int:
    """Raises ServingError or OSError. The exit code: 1 if a judged figure is further off than the tolerance."""
    told = _told(table)
    measured = read_measured(_folder(data))
    with TemporaryDirectory(prefix="baton-sim-") as folder:
        profile = Path(folder) / "profile.json"
        scenario, fit = _scenario(table, told, measured, profile)
        run = simulate(scenario, load_of(scenario))
    distributions = summarize(run.facts).distributions
    if len(run.facts) != distributions["e2e_s"].count:
        raise BadScenario(scenario.name, f"{distributions['e2e_s'].count} of {len(run.facts)} requests succeeded")
    figures = list(compare(measured.requests, distributions, told.judged))
    _show(console, scenario, measured, fit, figures, told)
    return EXIT_OFF if any(_is_off(figure, told) for figure in figures) else 0


def compare(
    requests: Sequence[MeasuredRequest], simulated: Mapping[str, Distribution], judged: Sequence[str]
) -> list[Figure]:
    """Every statistic of every figure."""
    found = measured_figures(requests)
    return [
        Figure(f"{name}.{statistic}", real, getattr(simulated[name], statistic) or 0.0, f"{name}.{statistic}" in judged)
        for name in FIGURES
        for statistic in STATISTICS
        if (real := getattr(found[name], statistic)) is not None
    ]


def measured_figures(requests: Sequence[MeasuredRequest]) -> dict[str, Distribution]:
    """Seconds; TTFT and E2E from the arrival, on the engine's clock."""
    shift = clock_shift_s(requests)
    several = [each for each in requests if each.output_toks > 1]
    return {
        "ttft_s": describe(each.first_token_ts - each.arrival_time - shift for each in requests),
        "tpot_s": describe((each.last_token_ts - each.first_token_ts) / (each.output_toks - 1) for each in several),
        "e2e_s": describe(each.last_token_ts - each.arrival_time - shift for each in requests),
    }


def clock_shift_s(requests: Sequence[MeasuredRequest]) -> float:
    """What a time of the clients' clock lacks to be one of the engine's: the first to queue at once had no delay."""
    return min(each.queued_ts - each.arrival_time for each in requests)


def profile_of(engine: Engine, measured: Measured, told: MeasuredTable, scenario: str) -> tuple[Profile, Fit]:
    """Raises TooFewShapes, or BadScenario for a model whose number of layers is not known."""
    shape = shape_of(engine.name) if not told.num_layers else KvGeometry(
        num_kv_layers=told.num_layers, num_kv_heads=8, head_dim=128, dtype="bfloat16"
    )  # fmt: skip
    if shape is None:
        what = f"the number of layers of {engine.name} is not known; known are {', '.join(sorted(SHAPES))}"
        raise BadScenario(scenario, what, f"{KEY}.num_layers")
    reach = Reach(
        positions=engine.token_budget,
        decodes=engine.num_slots,
        kv_tokens=engine.num_blocks * engine.block_size,
        sequence=max(each.input_toks + each.output_toks for each in measured.requests),
        captured=engine.captured,
    )
    fit = compose(measured.tables, shape.num_kv_layers, reach, told.host_ms / 1e3)
    profile = Profile(
        name=f"{engine.name} on {engine.device}",
        source="kernel times, attention fitted",
        kv=shape,
        kv_tokens=engine.num_blocks * engine.block_size,
        steps=fit.model,
        fit_errors=fit.errors,
    )
    return profile, fit


# ---- inside


def _told(table: dict[str, Any]) -> MeasuredTable:
    scenario = str(table.get("name", "scenario"))
    try:
        told = msgspec.convert(table.pop(KEY), MeasuredTable, strict=False)
    except msgspec.ValidationError as error:
        raise BadScenario(scenario, str(error), KEY) from error
    known = [f"{name}.{statistic}" for name in FIGURES for statistic in STATISTICS]
    for figure in told.judged:
        if figure not in known:
            raise BadScenario(scenario, f"{figure} is none of {', '.join(known)}", f"{KEY}.judged")
    return told


def _folder(data: str) -> Path:
    if data:
        return Path(data)
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]) / SUBFOLDER
    what = f"the folder of the measured run is needed (or {VARIABLE}, the folder that {SUBFOLDER} lies in)"
    raise BadScenario("--data", what)


def _scenario(table: dict[str, Any], told: MeasuredTable, measured: Measured, path: Path) -> tuple[RunScenario, Fit]:
    """The scenario with the engine's limits and the run's requests; its profile is written to the path."""
    engine = measured.engine
    profile, fit = profile_of(engine, measured, told, str(table.get("name")))
    path.write_bytes(encode_profile(profile))
    limits = {
        "num_slots": engine.num_slots,
        "token_budget": engine.token_budget,
        "long_prefill_tokens": engine.long_prefill_tokens,
        "num_queued_steps": engine.num_queued_steps,
    }
    from_run = {
        "profile": str(path),
        "block_size": engine.block_size,
        "kv_tokens": profile.kv_tokens,
        "max_model_len": engine.max_model_len,
        "unified": limits | table.get("unified", {}),
    }
    first_s = measured.requests[0].arrival_time
    asks = tuple(
        PlannedAsk(at_s=each.arrival_time - first_s, input_tokens=each.input_toks, output_tokens=each.output_toks)
        for each in measured.requests
    )
    return msgspec.structs.replace(make_scenario(from_run | table | {"unified": from_run["unified"]}), asks=asks), fit


def _is_off(figure: Figure, told: MeasuredTable) -> bool:
    return figure.is_judged and not abs(figure.error) <= told.tolerance


def _show(
    console: Console,
    scenario: RunScenario,
    measured: Measured,
    fit: Fit,
    figures: Sequence[Figure],
    told: MeasuredTable,
) -> None:
    engine = measured.engine

    def say(text: str, style: str = "") -> None:
        console.print(escape(text), style=style, highlight=False, soft_wrap=True)

    say(
        f"{engine.name}, vLLM {engine.version}, {engine.device}: {len(measured.requests)} requests; {engine.num_slots} "
        f"sequences, {engine.token_budget} tokens a step, {engine.num_blocks} blocks of {engine.block_size}"
    )
    errors = ", ".join(f"{kind} {error.mape:.1%}" for kind, error in fit.errors.items())
    say(f"steps: kernel times + {told.host_ms:g} ms of host time; attention fitted, mean error of a step: {errors}")
    if not engine.has_prefix_cache:
        say("it had no prefix cache: preempted sequences find blocks here that they did not find there")
    shown = Table()
    for head in ("ms", "measured", "simulated", "error", ""):
        shown.add_column(head, justify="left" if head in ("ms", "") else "right")
    for figure in figures:
        name, _, statistic = figure.name.partition(".")
        verdict = ("off" if _is_off(figure, told) else "judged") if figure.is_judged else ""
        times = [f"{seconds * 1e3:,.1f}" for seconds in (figure.measured, figure.simulated)]
        shown.add_row(f"{FIGURES[name]} {statistic}", *times, f"{figure.error:+.1%}", verdict)
    show_table(shown, console)
    queued = describe(each.first_token_ts - each.queued_ts for each in measured.requests)
    from_queue = f"{(queued.mean or 0.0) * 1e3:,.1f}"
    say(f"TTFT and E2E count from the arrival; from the engine's queue on, the measured mean TTFT is {from_queue}")
    off = [figure for figure in figures if _is_off(figure, told)]
    within = f"within {told.tolerance:.0%} of what was measured"
    if off:
        say(f"{len(off)} judged figures are not {within}", "red")
    else:
        say(f"all judged figures are {within}")
