"""Options that `baton compare` and `baton tune` share: the load, the SLO, the seeds, as `baton sim` has them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from baton.core.metrics.goodput import NO_SLO, Slo
from baton.core.metrics.intervals import caution
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.services.loadgen.bench_settings import slo_of
from baton.services.sim.run_flags import Asked, BadCommand, add_flags, table_of

DEFAULT_SEEDS = 3
MAX_SEEDS, MAX_JOBS = 100, 256


class Study(Asked, frozen=True, kw_only=True):
    """What both are asked."""

    jobs: int | None = None


def add_study_flags(parser: argparse.ArgumentParser, files: str) -> None:
    """`files`: what `--out` gets."""
    add_flags(
        parser,
        seeds=f"runs of each load, for the intervals ({DEFAULT_SEEDS}; of a trace 1)",
        files=files,
        settings="change a field of the scenario or a knob of a table, for all: executor.piece_bytes=67108864",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (one for each core)")


def base_table(study: Study, topology: str) -> dict[str, Any]:
    """The scenario that the study varies, with this topology and an SLO. Raises ServingError."""
    for name, least, most in (("seeds", 1, MAX_SEEDS), ("jobs", 1, MAX_JOBS)):
        value = getattr(study, name)
        if value is not None and not least <= value <= most:
            raise BadCommand(f"--{name} {value}: from {least} to {most}")
    if not study.scenario and not (study.profile and (study.trace or study.synthetic)):
        raise BadCommand("--scenario, or --profile and a load (--trace or --synthetic)")
    for setting in study.settings:
        if setting.partition("=")[0].strip() == "topology":
            raise BadCommand(f"--set {setting}: which executors is told by flags of the command's own")
    table = table_of(structs.replace(study, topology="" if study.scenario else topology, seeds=None))
    if "arms" in table:
        raise BadCommand(f"--scenario {study.scenario}: it has arms of its own; `baton sim` compares those")
    table["topology"] = topology
    if bound_of(table) == NO_SLO:
        raise BadCommand("--slo: what is good is told by bounds, such as ttft=2s,itl=25ms")
    make_scenario(table)
    return table


def bound_of(table: dict[str, Any]) -> Slo:
    """Raises BadLoad."""
    return slo_of(str(table.get("slo", "")))


def seeds_text(seeds: Sequence[int]) -> str:
    """What intervals are of."""
    if len(seeds) == 1:
        return "one run: 95 % intervals are of its consecutive parts"
    said = caution(len(seeds))
    return f"{len(seeds)} seeds: 95 % intervals are over them" + (f" ({said})" if said else "")


def seeds_of(study: Study, table: dict[str, Any], is_trace: bool) -> list[int]:
    """A trace is the same under each seed, so that one run's own parts say more than several runs."""
    first = make_scenario(table).seed
    count = study.seeds or (1 if is_trace else DEFAULT_SEEDS)
    return [first + number for number in range(count)]
