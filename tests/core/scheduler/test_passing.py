"""W4, C7: what lacks blocks where it must go is passed by others that fit elsewhere; what lacks slots by none."""

from __future__ import annotations

import pytest

from baton.core.errors import InvariantViolated
from baton.core.ids import AttemptId, Peer, Role
from baton.core.wire import messages as m
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, unified_of


def sized(num_blocks: int, seed: int) -> m.Work:
    """A request that takes so many blocks where it decodes, and as many where its prompt is computed."""
    return work(prompt(4 * num_blocks - 3, seed), max_tokens=4)


def two_pairs(**knobs: float) -> tuple[SchedulerRig, tuple[Peer, ...], tuple[Peer, ...]]:
    """Each decode executor receives from one prefill executor alone. Both are full: number 1 at the first, 2 at the
    second; 3 is computed at the first, 4 at the second."""
    rig = SchedulerRig(placement="always_pd", prefix_wait=False, steps_ahead=100.0, **knobs)
    rig.up(ROUTER)
    prefills = tuple(an_executor(name, Role.PREFILL) for name in ("prefill", "prefill2"))
    decodes = tuple(an_executor(name, Role.DECODE, num_blocks=10) for name in ("decode", "decode2"))
    for prefill, decode in zip(prefills, decodes, strict=True):
        rig.join(prefill)
        rig.join(decode, pairs=(prefill.life,))
    for number in (1, 2):
        rig.submit(number, sized(8, number))
    for number in (3, 4):
        rig.submit(number, sized(4, number))
    assert {name for number in (1, 2) for name in rig.where(number)} == {peer.name for peer in (*prefills, *decodes)}
    assert sorted(rig.where(3) + rig.where(4)) == ["prefill", "prefill2"]
    return rig, prefills, decodes


@pytest.mark.parametrize("is_due", [True, False])
def test_w4_a_computed_prompt_whose_decode_executor_is_full_is_passed_by_another_pairs(is_due):
    rig, prefills, decodes = two_pairs(handoff_slack=0.0)
    partner = {prefill.name: decode for prefill, decode in zip(prefills, decodes, strict=True)}
    if is_due:
        for number in (3, 4):
            rig.hear(next(p for p in prefills if p.name == rig.where(number)[0]), m.Due(AttemptId(number, 0)))
    freed = partner[rig.where(4)[0]]
    rig.ended(freed, 1 if freed.name in rig.where(1) else 2, 8)
    assert (len(rig.where(3)), rig.where(4)[1:]) == (1, [freed.name])


def test_x1_computed_prompts_that_are_lost_from_their_queue_are_found():
    rig, _, _ = two_pairs()
    rig.core._handoffs.early._handles.clear()
    with pytest.raises(RuntimeError):
        rig.core.check_invariants()


def test_c7_nobody_passes_a_request_that_lacks_slots_alone():
    rig = SchedulerRig()
    unified = unified_of(rig, num_slots=2)
    rig.submit(1)
    rig.submit(2, work(prompt(8, 2), num_choices=2))
    rig.submit(3)
    assert (rig.where(2), rig.where(3)) == ([], [])
    rig.ended(unified, 1, 3)
    assert rig.where(2) == ["unified"]


def _computed_more_than_was_placed(core):
    next(iter(core._fleet)).num_pending_tokens = -1


def _lose_an_account(core):
    core._fleet.ledger.close(next(iter(core._fleet)).index)


def _forget_who_waits(core):
    core._arrivals._handles.clear()


@pytest.mark.parametrize("damage", [_computed_more_than_was_placed, _lose_an_account, _forget_who_waits])
def test_x1_each_planted_violation_of_the_schedulers_books_is_found(damage):
    rig = SchedulerRig()
    unified_of(rig, num_slots=1)
    rig.submit(1)
    rig.submit(2)
    rig.core.check_invariants()
    damage(rig.core)
    with pytest.raises((InvariantViolated, RuntimeError)):
        rig.core.check_invariants()
