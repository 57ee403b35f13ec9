"""Prompts placed by chance, by how little an executor has to do, or by that and what it has cached: the strategies that
others compare their placement with.

Each decides when a request arrives, as theirs do, so a scenario gives `scheduler.steps_ahead` no bound; who decodes is
chosen as ours does. What an executor happens to have cached it does not compute again, whoever chose it.

- `random`: any that has room;
- `load`: the one with the fewest prompt tokens to compute, whatever it has cached;
- `cache`: the one with the fewest, those of this prompt that it lacks included (ours while nothing is measured).
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from baton.core.config import SchedulerConfig
from baton.core.ids import Peer
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.machine import SchedulerCore
from baton.core.scheduler.placement import MakePlacement, Placement
from baton.core.scheduler.queue import Waiting
from baton.core.session.node import Node
from baton.core.sim.fleet_run.parts import FleetWiring, Parts


class RandomPlacement(Placement):
    """Of those that have room, any."""

    def __init__(self, seed: int, fleet: Fleet, config: SchedulerConfig) -> None:
        super().__init__(fleet, config)
        self._chance = random.Random(seed)

    def _least(self, waiting: Waiting, able: list[Executor]) -> Executor | None:
        return self._chance.choice(able) if able else None


class LoadPlacement(Placement):
    """Of those that have room, the one with the fewest tokens to compute; then by how many it decodes."""

    def _least(self, waiting: Waiting, able: list[Executor]) -> Executor | None:
        return min(able, key=lambda e: (e.num_pending_tokens, e.num_attempts, e.peer.name)) if able else None


class CachePlacement(Placement):
    """The same, with what it would have to compute of this prompt."""

    def _least(self, waiting: Waiting, able: list[Executor]) -> Executor | None:
        def key(executor: Executor) -> tuple[Any, ...]:
            num_tokens = executor.num_pending_tokens + self.uncached(waiting, executor)
            return (num_tokens, executor.num_attempts, executor.peer.name)

        return min(able, key=key) if able else None


class PlacedWiring(FleetWiring):
    def __init__(self, make_placement: MakePlacement, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._make_placement = make_placement

    def scheduler(self, own: Peer) -> Node:
        return Node(own, SchedulerCore(own, self._scenario.scheduler, self._make_placement), self._timing)


def make(by: str, seed: int = 0) -> Parts:
    """Raises TypeError for a strategy that there is not."""
    known: dict[str, MakePlacement] = {
        "random": partial(RandomPlacement, int(seed)),
        "load": LoadPlacement,
        "cache": CachePlacement,
    }
    if by not in known:
        raise TypeError(f"by: {by!r} is none of {', '.join(known)}")
    return Parts(wiring=partial(PlacedWiring, known[by]))
