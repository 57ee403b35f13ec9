"""P3: the hold of a prompt and the wait for its prefix before it came stay together within the bound of C8."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.alternating import add, alternating, count, done_after
from tests.support.expect import messages
from tests.support.machines import LAYOUT, SCHEDULER, prompt, unified, work


def come(rig, number: int, waited_ms: int) -> None:
    asked = work(prompt(4, number), 4)
    message = m.Run(AttemptId(number, 0), asked, rig.order(), rig.demand(asked).decode_blocks, 60_000)
    rig.hear(SCHEDULER, replace(message, waited_ms=waited_ms))


def test_p3_and_c8_what_a_prompt_waited_for_its_prefix_is_taken_off_the_bound_of_its_hold():
    rig = alternating(hold="fill", hold_fill=1.0, hold_max_ms=200.0)
    come(rig, 3, waited_ms=100)
    assert [done_after(rig, 0.03) for _ in range(4)] == ["D", "D", "D", "P"]
    assert count(rig, "fires_age") == 1


def test_p3_and_c8_the_bound_is_that_of_whoever_waited_longest_also_if_it_came_last():
    rig = alternating(hold="fill", hold_fill=1.0, hold_max_ms=200.0)
    add(rig, 3, 4)
    assert done_after(rig, 0.03) == "D"
    come(rig, 4, waited_ms=150)
    assert [done_after(rig, 0.03) for _ in range(2)] == ["D", "P"]
    assert count(rig, "fires_age") == 1


def test_p3_and_c8_whoever_waited_as_long_as_that_is_not_held_at_all():
    rig = alternating(hold="fill", hold_fill=1.0, hold_max_ms=200.0)
    come(rig, 3, waited_ms=200)
    assert done_after(rig, 0.001) == "P"


def test_p1_blocks_are_published_and_used_up_to_the_last_saved_state():
    rig = unified(layout=replace(LAYOUT, checkpoint_blocks=2))
    rig.run(1, work(prompt(15)))  # three full blocks, and one state saved behind the second
    published = b"".join(change.published for change in messages(rig.step_done(), m.CacheChanged))
    assert published == work(prompt(15)).hashes[:32]
    rig.finish_steps()
    rig.run(2, work([*prompt(8), 5]))
    assert rig.rows(rig.steps[0])[0].start == 8
    rig.finish_steps()
    rig.run(3, work(prompt(8)))  # wholly cached, but its last token needs the state before it
    assert (rig.rows(rig.steps[0])[0].start, rig.rows(rig.steps[0])[0].num_tokens) == (0, 8)
