"""Prompts that wait for company by an estimate of them, and decode steps that are protected for a fixed interval.

What others built beside their own admission, with its faults:

- how much waits is estimated by a second walk, over the first `num_looked` entries of the queue alone, of the whole
  budget: a deep queue of short prompts never looks full, and entries that nothing can be done for use the look up;
- after a step of prompts `interval` passes are of decodes, before any bound is looked at, the queue's age included;
- the stall and the longest hold are counted in passes, so that their time depends on how long a step takes;
- the age is that of the oldest prompt, whether it can be admitted or not: one that cannot lets everything go at once.

With `interval` 0 none of it is on: prompts first, as their scheduler did before.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import msgspec

from baton.core.executor import walk
from baton.core.executor.machine import ExecutorCore
from baton.core.executor.sequence import Sequence
from baton.core.executor.state import ExecutorState
from baton.core.executor.tokens import HASH_BYTES
from baton.core.executor.walk import Draft
from baton.core.ids import Peer
from baton.core.session.node import Node
from baton.core.sim.fleet_run.parts import FleetWiring, Parts
from baton.core.sim.scenario import ExecutorSpec
from baton.core.sim.wiring import HASH_KEY


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Those that are published as defaults of the engine, but for `interval` and `queue_ms`, which its users set."""

    interval: int = 0  #: passes of decodes after a step of prompts; 0: neither interval nor hold
    fill: float = 0.9  #: part of the token budget at which a hold ends
    hold_passes: int = 200  #: longest hold
    partial_passes: int = 100  #: the same, while a prompt is computed in part
    stall_passes: int = 10  #: without growth of the estimate
    queue_ms: float = 5000.0  #: age of the oldest prompt at which a hold ends
    kv_high: float = 0.9  #: part of the KV memory in use at which a hold ends
    num_looked: int = 4  #: entries of the queue that the estimate looks at


class FixedInterval:
    """One executor's policy."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.interval_left = 0
        self.held = 0  #: passes of this hold
        self.stalled = 0  #: passes without growth
        self.last_estimate = -1
        self.fill = 0.0  #: as estimated last

    def next_step(self, state: ExecutorState) -> Draft:
        """What is launched in this pass."""
        decodes = walk.plan_decodes(state)
        if not self._lets_prompts_go(state, bool(decodes)):
            return decodes
        prompts = walk.plan_prompts(state)
        if not prompts:
            return decodes
        self.interval_left = self.bounds.interval
        return prompts

    def _lets_prompts_go(self, state: ExecutorState, decodes: bool) -> bool:
        if self.bounds.interval == 0:
            return True
        if decodes and self.interval_left > 0:
            self.interval_left -= 1
            return False
        if not len(state.queue) or not decodes or self._must(state) or self._is_worth_it(state):
            self.held, self.stalled, self.last_estimate = 0, 0, -1
            return True
        self.held += 1
        return False

    def _must(self, state: ExecutorState) -> bool:
        bounds, gate, pool = self.bounds, state.gate, state.memory.pool
        return (
            pool.num_blocks - pool.num_free >= bounds.kv_high * pool.num_blocks
            or (state.now - gate.oldest) * 1e3 >= bounds.queue_ms
            or self.held >= bounds.hold_passes
            or (bool(gate.partials) and self.held >= bounds.partial_passes)
        )

    def _is_worth_it(self, state: ExecutorState) -> bool:
        estimate = min(self._estimate(state), state.config.token_budget)
        self.fill = estimate / state.config.token_budget
        if self.fill >= self.bounds.fill:
            return True
        self.stalled = 0 if estimate > self.last_estimate else self.stalled + 1
        self.last_estimate = estimate
        return self.stalled >= self.bounds.stall_passes

    def _estimate(self, state: ExecutorState) -> int:
        """Tokens that the first entries would compute; of those that no walk could take, none."""
        looked = islice(state.queue.handles(), self.bounds.num_looked)
        return sum([_to_compute(state, state.sequences[handle]) for handle in looked])


def _to_compute(state: ExecutorState, sequence: Sequence) -> int:
    if state.queue.demand(sequence.seq_id) > (1, 0):
        return 0
    work = sequence.group.work
    if sequence.num_scheduled:
        return work.num_tokens - sequence.num_scheduled
    size = state.layout.block_size
    hits = state.memory.pool.match(bytes(sequence.hashes[: work.num_tokens // size * HASH_BYTES]))
    return max(1, work.num_tokens - hits * size)


class FixedCore(ExecutorCore):
    """An executor whose next step is theirs to choose."""

    def __init__(self, bounds: Bounds, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.policy = FixedInterval(bounds)

    def _next_step(self, lane: int) -> Draft:
        return self.policy.next_step(self.state)


class FixedWiring(FleetWiring):
    def __init__(self, bounds: Bounds, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bounds = bounds

    def executor(self, own: Peer, spec: ExecutorSpec) -> Node:
        return Node(own, FixedCore(self._bounds, own, self._layout, spec.config, HASH_KEY), self._timing)


def make(**bounds: Any) -> Parts:
    """Raises TypeError for a bound that there is not."""
    return Parts(wiring=partial(FixedWiring, Bounds(**bounds)))
