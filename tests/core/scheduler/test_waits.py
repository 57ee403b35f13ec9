"""Why attempts wait at the scheduler, how long they did, and the line that closes each placement."""

from __future__ import annotations

import pytest

from baton.core.errors import Reason
from baton.core.events import Note, Span
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import like, only
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, pair_of, unified_of


def test_h10_who_is_placed_at_once_waited_for_nothing_and_one_line_says_when():
    rig = SchedulerRig()
    pair_of(rig)
    out = rig.submit(1)
    assert only(out, Span) == []
    (note,) = only(out, Note)
    assert (note.what, note.request_id, note.reason, note.peer, note.why) == ("placed", 1, None, "prefill", "pd")
    assert note.numbers == {"queued_s": rig.now, "placed_ms": 0.0, "handed_over_ms": 0.0}


@pytest.mark.parametrize(
    ("capacity", "reason"),
    [({"num_blocks": 4}, Reason.KV_EXHAUSTED), ({"num_slots": 1}, Reason.NO_SLOT)],
)
def test_w6_a_wait_for_a_place_has_the_reason_of_what_was_short(capacity: dict[str, int], reason: Reason):
    rig = SchedulerRig()
    unified = unified_of(rig, **capacity)
    asked = work(prompt(10), max_tokens=4)
    rig.submit(1, asked)
    began = rig.now
    assert only(rig.submit(2, asked), Span) == []
    assert rig.core.gauges()[f"wait_{reason.name.lower()}_total"] == 1
    rig.wake(0.5)
    rig.wake(0.5)
    assert rig.core.gauges()[f"wait_{reason.name.lower()}_total"] == 1  # one wait, however many turns it lasts
    (waiting,) = rig.core.unfinished()
    assert waiting == like(Note, what="waits", request_id=2, reason=reason, numbers={"queued_s": began})
    out = rig.ended(unified, 1, 4)
    assert only(out, Span) == [Span("placement", began, rig.now, reason, request_id=2)]
    assert rig.core.unfinished() == []


def test_w6_nobody_to_place_it_is_a_reason_too():
    rig = SchedulerRig()
    rig.up(ROUTER)
    rig.submit(1)
    began = rig.now
    rig.now += 0.25
    out = rig.join(an_executor("unified", Role.UNIFIED))
    assert only(out, Span) == [Span("placement", began, rig.now, Reason.NO_EXECUTOR, request_id=1)]


def test_w6_who_stands_behind_the_first_waits_for_the_same():
    rig = SchedulerRig(steps_ahead=100.0)
    unified = unified_of(rig, num_slots=2)
    for number in (1, 2, 3, 4):
        rig.submit(number, after_s=0.5)
    rig.hear(unified, m.Ended(AttemptId(1, 0)), 0.5)
    spans = only(rig.ended(unified, 2, 8, 2), Span)
    assert [(span.request_id, span.reason) for span in spans] == [(3, Reason.NO_SLOT), (4, Reason.NO_SLOT)]
    assert rig.core.gauges()["wait_no_slot_total"] == 1


def test_w6_a_prefill_executor_with_work_enough_is_waited_for_by_tokens():
    rig = SchedulerRig(steps_ahead=1.0)
    prefill, _ = pair_of(rig, p={"token_budget": 8})
    rig.submit(1, work(prompt(8, 1)))
    rig.submit(2, work(prompt(8, 2)))
    out = rig.hear(prefill, m.Credit(0, 0, 8), 0.5)
    assert only(out, Span) == [Span("placement", rig.now - 0.5, rig.now, Reason.TOKEN_BUDGET, request_id=2)]


def test_w6_a_computed_prompt_waits_for_decode_with_a_reason():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig, d={"num_slots": 1})
    rig.submit(1)
    rig.submit(2)
    placed_at = rig.now
    rig.hear(prefill, m.Due(AttemptId(2, 0)), 0.5)
    out = rig.ended(decode, 1, 4)
    assert only(out, Span) == [Span("hand-off", placed_at, rig.now, Reason.NO_SLOT, request_id=2)]
    (note,) = only(out, Note)
    assert note.numbers["handed_over_ms"] == pytest.approx(500.0)
