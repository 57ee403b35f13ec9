"""Must-fire bounds of prompts that the plan leaves out, while decodes are protected."""

from __future__ import annotations

import pytest

from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.alternating import add, alternating, count, kinds
from tests.support.machines import SCHEDULER, prompt, work


def test_c17_an_overdue_prompt_that_the_plan_leaves_out_ends_no_protection():
    """An urgent one that takes the whole budget stands before it."""
    rig = alternating(protect_steps=40, hold_max_ms=250.0)
    add(rig, 3, 4)
    assert kinds(rig, 2) == "DP"
    rig.run(4, work(prompt(20, 4), max_tokens=20), cls=1)
    assert kinds(rig, 8) == "D" * 8  # 125 ms
    add(rig, 5, 32)
    walks = count(rig, "walks")
    assert kinds(rig, 15) == "D" * 15  # the first is overdue after eight of these
    assert count(rig, "walks") == walks + 1  # what that plan has shown stands
    assert kinds(rig, 3).endswith("PP")  # 250 ms after the urgent one came; then the plan admits the other
    assert count(rig, "fires_age") == 2


@pytest.mark.parametrize(
    ("knobs", "before", "after"), [({"hold_kv_high": 0.02}, "D", "PP"), ({"hold_partial_ms": 5.0}, "DP", "DP")]
)
def test_c8_an_overdue_prompt_is_not_kept_back_where_another_bound_is_of_one_that_the_plan_leaves_out(
    knobs, before, after
):
    """The rest of a prompt holds memory, or was kept back as long as it may. One that has waited elsewhere comes and
    takes the whole budget before it."""
    rig = alternating(protect_steps=40, hold_max_ms=250.0, **knobs)
    rig.run(3, work(prompt(64, 3), max_tokens=20), cls=1)
    assert kinds(rig, len(before)) == before  # the first part of it is launched
    asked = work(prompt(32, 4), max_tokens=20)
    message = m.Run(AttemptId(4, 0), asked, rig.order(), rig.demand(asked).decode_blocks, 60_000, waited_ms=1_000)
    rig.hear(SCHEDULER, message)
    assert kinds(rig, 2) == after
    assert count(rig, "fires_age") == 1
