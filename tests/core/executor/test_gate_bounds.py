"""Must-fire bounds of prompts that the plan leaves out, while decodes are protected."""

from __future__ import annotations

from tests.support.alternating import add, alternating, count, kinds
from tests.support.machines import prompt, work


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
