"""What two executors of one machine cost each other, found again from their steps."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from baton.core.sim.step_time.contention import shares_beside, slowdown_of
from baton.core.sim.step_time.features import StepKind
from baton.core.sim.step_time.fit import fit
from baton.core.sim.step_time.observed import ObservedStep


def step(step_id: int, begin: float, end: float, tokens: int = 0, decodes: int = 0) -> ObservedStep:
    attention = tokens * tokens / 2
    return ObservedStep(step_id, 0, begin, end, end - begin, tokens, attention, int(tokens > 0), decodes, decodes * 100)


def test_shares_are_the_time_during_which_the_other_computed() -> None:
    beside = [step(1, 0.0, 1.0), step(2, 1.0, 2.0), step(3, 5.0, 6.0), step(4, 5.5, 7.0)]
    own = [step(1, -1.0, 0.0), step(2, 0.5, 1.5), step(3, 1.5, 2.5), step(4, 3.0, 4.0), step(5, 4.0, 8.0)]
    assert shares_beside(own, beside).tolist() == pytest.approx([0.0, 1.0, 0.5, 0.0, 0.5])
    assert shares_beside(own, []).tolist() == [0.0] * 5


def test_without_anything_beside_there_is_no_slowdown() -> None:
    assert slowdown_of(np.array([1.3, 2.6]), np.array([1.0, 2.0]), np.zeros(2)) == 1.0


def two_executors(slowdown: float, noise: float = 0.0) -> tuple[list[ObservedStep], list[ObservedStep]]:
    """Steps of decodes back to back; prompts beside them, with pauses."""
    rng, prompts, now = Random(3), [], 0.0
    for step_id in range(400):
        now += rng.uniform(0.0, 0.4)
        end = now + rng.uniform(0.05, 0.3)
        prompts.append(step(step_id, now, end, tokens=50))
        now = end
    edges = [edge for each in prompts for edge in (each.done_at - each.duration_s, each.done_at)]
    decodes, at, step_id = [], 0.0, 0
    while at < now:
        count = rng.randrange(1, 9)
        left = (0.03 + 0.002 * count) * (rng.lognormvariate(0.0, noise) if noise else 1.0)
        begin, step_id = at, step_id + 1
        while left > 1e-12:
            place = int(np.searchsorted(edges, at, side="right"))
            pace = 1.0 / slowdown if place % 2 else 1.0
            until = min(at + left / pace, edges[place] if place < len(edges) else float("inf"))
            left -= (until - at) * pace
            at = until
        decodes.append(step(step_id, begin, at, decodes=count))
    return decodes, prompts


@pytest.mark.parametrize("slowdown", [1.0, 1.12, 1.5])
def test_a_fit_tells_apart_what_steps_take_and_what_the_other_costs(slowdown: float) -> None:
    decodes, prompts = two_executors(slowdown)
    found = fit(decodes, prompts).model
    assert found.decode is not None
    assert found.decode.neighbour_slowdown == pytest.approx(slowdown, rel=2e-3)
    assert found.decode.seconds(step(1, 0, 1, decodes=5).features) == pytest.approx(0.04, rel=5e-3)


def test_the_slowdown_is_found_in_noise() -> None:
    decodes, prompts = two_executors(1.2, noise=0.15)
    assert fit(decodes, prompts).model.neighbour_slowdown(StepKind.DECODE) == pytest.approx(1.2, rel=0.03)


def test_without_the_other_s_steps_nothing_is_told_apart() -> None:
    decodes, _ = two_executors(1.5)
    assert fit(decodes).model.neighbour_slowdown(StepKind.DECODE) == 1.0
