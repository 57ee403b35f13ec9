"""Holds and protections are told when they are over: since when, until when they could have lasted, what ended them."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Span
from tests.support.alternating import add, alternating, kind
from tests.support.expect import only
from tests.support.machines import ExecutorRig


def run_until_prompts(rig: ExecutorRig, step_s: float = 1 / 64) -> list[Span]:
    """Steps until one is of prompts; what was told meanwhile."""
    spans = []
    for _ in range(100):
        rig.now += step_s
        spans += only(rig.step_done(), Span)
        if kind(rig) == "P":
            return spans
    raise AssertionError("no prompt was computed")


def test_c14_and_c28_a_protection_tells_its_bound_and_that_its_steps_ran():
    rig = alternating(protect_steps=3, hold_max_ms=50_000.0)
    add(rig, 11, 8)
    run_until_prompts(rig)
    add(rig, 12, 8)
    began = rig.now
    (span,) = run_until_prompts(rig)
    assert (span.what, span.reason, span.ended_by) == ("protection", Reason.PROTECTED, "fill")
    assert began <= span.since < span.ended_at == rig.now < span.until


def test_c14_and_c28_a_hold_tells_until_when_it_would_have_waited_and_what_fired():
    rig = alternating(hold="fill", hold_fill=1.0)
    add(rig, 11, 8)
    rig.now += 1 / 64
    rig.step_done()
    began = rig.now  # of the first step that could have been of prompts
    (under_way,) = [one for one in rig.core.unfinished() if isinstance(one, Span)]
    assert (under_way.what, under_way.since, under_way.ended_by) == ("hold", began, "")
    add(rig, 12, 24)
    (span,) = run_until_prompts(rig)
    assert (span.what, span.since, span.reason, span.ended_by) == ("hold", began, Reason.HELD, "fill")
    assert span.until > rig.now
    assert not [one for one in rig.core.unfinished() if isinstance(one, Span)]


def test_c14_a_hold_whose_prompts_leave_is_over_without_a_fire():
    rig = alternating(hold="fill", hold_fill=1.0)
    add(rig, 11, 8)
    rig.now += 1 / 64
    rig.step_done()
    rig.abort(11)
    rig.now += 1 / 64
    spans = only(rig.step_done(), Span)
    assert [(span.what, span.ended_by) for span in spans] == [("hold", "no_demand")]
