"""What a search may choose from: how a number of executors is split, and which knobs have which values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from baton.core.errors import ServingError
from baton.core.knob_effects import lacking
from baton.core.sim.fleet_run.spec import parse_topology

#: who computes a prompt: among replicas, which are all alike, it is worth no runs
OF_PD = ("scheduler.placement", "scheduler.interruption_weight")
#: what is tried where nothing is asked for: what is placed where, how large steps of prompts are, and how many decode
DEFAULT_KNOBS: dict[str, tuple[str, ...]] = {
    "scheduler.placement": ("predicted", "always_pd"),
    "prefill.token_budget": ("1024", "4096"),
    "decode.token_budget": ("512",),
    "decode.num_slots": ("64", "128"),
    "unified.token_budget": ("512", "1024"),
    "unified.step_mode": ("mixed", "alternate"),
}
TABLES = ("executor", "prefill", "decode", "unified", "scheduler", "router")
MAX_VALUES = 32  #: of all knobs together


class BadKnobs(ServingError):
    """The text names no knobs with their values."""


class Candidate(msgspec.Struct, frozen=True):
    """A topology, and what is set otherwise than the scenario says."""

    topology: str
    knobs: tuple[tuple[str, str], ...] = ()  #: (table.knob, value), by name

    @property
    def name(self) -> str:
        return " ".join((self.topology, *(f"{knob}={value}" for knob, value in self.knobs)))

    @property
    def is_pd(self) -> bool:
        return "P" in self.topology

    def having(self, knob: str, value: str) -> Candidate:
        return Candidate(self.topology, tuple(sorted({**dict(self.knobs), knob: value}.items())))

    def concerns(self, knob: str) -> bool:
        """Whether the knob could have an effect in this topology that is worth looking for."""
        table, _, name = knob.partition(".")
        return not lacking(table, name, dict(parse_topology(self.topology))) and (self.is_pd or knob not in OF_PD)


def topologies(num_executors: int) -> list[str]:
    """Each split in prefill and decode executors, and as many replicas."""
    splits = [f"{prefill}P{num_executors - prefill}D" for prefill in range(1, num_executors)]
    return [*splits, f"{num_executors}U"]


def parse_knobs(texts: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Of `decode.num_slots=32,64 scheduler.placement=predicted,always_pd`. Raises BadKnobs."""
    found: dict[str, tuple[str, ...]] = {}
    for part in " ".join(texts).split():
        knob, equals, listed = part.partition("=")
        values = tuple(value.strip() for value in listed.split(","))
        table, dot, name = knob.partition(".")
        if not equals or not dot or not name or not all(values):
            raise BadKnobs(f"knobs: {part!r} is not table.knob=A,B,… such as decode.num_slots=32,64")
        if table not in TABLES:
            raise BadKnobs(f"knobs: {part!r}: {table} is none of {', '.join(TABLES)}")
        if knob in found or len(set(values)) < len(values):
            raise BadKnobs(f"knobs: {part!r}: each knob and each of its values once")
        found[knob] = values
    if sum(map(len, found.values())) > MAX_VALUES:
        raise BadKnobs(f"knobs: more than {MAX_VALUES} values in all")
    return found
