"""One load at several rates or concurrencies: a plan for each, alike in all else but what the prompts say."""

from __future__ import annotations

import enum

import msgspec

from baton.services.loadgen.build import build_plan
from baton.services.loadgen.draws import derived_seed
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.load_settings import LoadSettings
from baton.services.loadgen.plan import Plan


class SweepOver(enum.StrEnum):
    RATE = "rate"
    CONCURRENCY = "concurrency"


class Sweep(msgspec.Struct, frozen=True):
    over: SweepOver
    values: tuple[float, ...]


def parse_sweep(text: str) -> Sweep:
    """`rate:1,2,4.5` or `concurrency:1,8,64`. Raises BadLoad."""
    name, _, listed = text.partition(":")
    try:
        over = SweepOver(name.strip())
        values = tuple(float(value) for value in listed.split(","))
    except ValueError:
        raise BadLoad(f"sweep {text!r} is neither rate:A,B,… nor concurrency:A,B,…") from None
    if not all(0 < value < float("inf") for value in values):
        raise BadLoad(f"sweep {text!r}: values are above 0")
    if over == SweepOver.CONCURRENCY and not all(value.is_integer() for value in values):
        raise BadLoad(f"sweep {text!r}: concurrencies are whole numbers")
    if len(set(values)) < len(values):
        raise BadLoad(f"sweep {text!r}: a value comes twice")
    return Sweep(over, values)


def sweep_plans(settings: LoadSettings, sweep: Sweep) -> list[tuple[str, Plan]]:
    """(label, plan) in the order of the values. Lengths are the same at each point, prompts are not, so that no point
    finds those of another in the server's cache. Raises BadLoad."""
    if getattr(settings, sweep.over.value):
        raise BadLoad(f"sweep, {sweep.over.value}: one of the two")
    points: list[tuple[str, Plan]] = []
    for number, value in enumerate(sweep.values):
        wanted = value if sweep.over == SweepOver.RATE else int(value)
        plan = build_plan(msgspec.structs.replace(settings, **{sweep.over.value: wanted}))
        seed = derived_seed(plan.seed, number)
        points.append((f"{sweep.over}={wanted:g}", msgspec.structs.replace(plan, seed=seed)))
    return points
