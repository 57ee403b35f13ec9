"""Prompt tokens are charged once: what the scheduler takes to be cached it does not count as to compute."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import messages
from tests.support.machines import SCHEDULER, prompt, unified, work


def run(rig, number, asked, num_cached=0):
    message = m.Run(AttemptId(number, 0), asked, rig.order(), rig.demand(asked).decode_blocks, 60_000)
    return rig.hear(SCHEDULER, replace(message, num_cached=num_cached))


def told_as_computed(out):
    return sum(credit.num_prompt_tokens for credit in messages(out, m.Credit))


def test_c6_cached_tokens_that_were_not_charged_are_not_told_as_computed():
    rig = unified()
    run(rig, 1, work(prompt(17)))
    assert told_as_computed(rig.finish_steps()) == 17
    out = run(rig, 2, work([*prompt(16), 7, 8, 9]), num_cached=16)
    assert told_as_computed(out + rig.finish_steps()) == 3


def test_c6_more_or_less_in_the_cache_than_was_thought_is_told_by_the_end():
    for num_cached, expected in ((0, 19), (16, 3), (18, 1)):
        rig = unified()
        run(rig, 1, work(prompt(17)))
        rig.finish_steps()
        out = run(rig, 2, work([*prompt(16), 7, 8, 9]), num_cached=num_cached)
        assert told_as_computed(out + rig.finish_steps()) == expected
    rig = unified()
    out = run(rig, 1, work(prompt(19)), num_cached=16)  # none of it lies here any more
    assert told_as_computed(out + rig.finish_steps()) == 3


def test_p8_blocks_are_told_before_the_tokens_that_computed_them():
    rig = unified()
    run(rig, 1, work(prompt(17)))
    out = [c.message for c in rig.step_done() if type(getattr(c, "message", None)) in (m.CacheChanged, m.Credit)]
    assert [type(message) for message in out] == [m.CacheChanged, m.Credit]
