"""R4 on the router: why a prompt was computed where it was goes with the first tokens, the end and the closing line."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.router.events import Deliver, End
from baton.core.wire import messages as m
from baton.core.wire.placement import PlacementReason
from tests.support.expect import like, only, the
from tests.support.machines import SCHEDULER, D, P
from tests.support.routing import RouterRig


def placed(rig: RouterRig, why: PlacementReason) -> m.AttemptId:
    work_id = rig.submits[-1].id
    prefill = P if why is PlacementReason.PD else D
    rig.hear(SCHEDULER, m.Placed(work_id, prefill.life, D.life, why))
    return work_id


def test_r4_the_first_tokens_the_end_and_the_closing_line_tell_the_reason():
    rig = RouterRig()
    rig.arrive(1)
    work_id = placed(rig, PlacementReason.CACHED)
    out = rig.say(D, work_id, 0, 5) + rig.say(D, work_id, 1, 6, finish="length")
    assert only(out, Deliver, End) == [
        like(Deliver, placement="cached"),
        like(Deliver, placement=""),
        like(End, placement="cached"),
    ]
    assert [note.why for note in only(out, Note) if note.what == "request ended"] == ["cached"]


def test_r4_tokens_that_come_before_the_schedulers_word_have_none_and_the_end_has_it():
    rig = RouterRig()
    rig.arrive(1)
    work_id = rig.submits[-1].id
    assert the(rig.say(D, work_id, 0, 5), Deliver).placement == ""
    placed(rig, PlacementReason.SHORT)
    assert the(rig.say(D, work_id, 1, 6, finish="length"), End).placement == "short"


def test_r4_the_attempt_that_gave_the_first_token_counts():
    rig = RouterRig()
    rig.arrive(1)
    work_id = placed(rig, PlacementReason.PD)
    rig.fail(work_id, Reason.PREEMPTED)
    work_id = placed(rig, PlacementReason.P_DOWN)
    assert the(rig.say(D, work_id, 0, 5), Deliver).placement == "p_down"
    rig.fail(work_id, Reason.PREEMPTED)
    work_id = placed(rig, PlacementReason.SHORT)
    assert the(rig.say(D, work_id, 1, 6, finish="length"), End).placement == "p_down"
