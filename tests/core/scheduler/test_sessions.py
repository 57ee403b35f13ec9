"""Executors, routers and launchers come and go: credit is never spent twice, nobody waits for what is over."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.wire import messages as m
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import LAUNCHER, SchedulerRig, pair_of, unified_of


def test_rtr_04_an_exit_that_was_seen_fails_its_attempts_at_once_and_aborts_them_elsewhere():
    rig = SchedulerRig()
    prefill, _ = pair_of(rig)
    rig.up(LAUNCHER)
    rig.submit(1)
    out = rig.hear(LAUNCHER, m.Exited(prefill.life))
    assert only(out, m.AttemptFailed, m.Abort) == [
        says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.PEER_LOST),
        says("decode", m.Abort, id=AttemptId(1, 0)),
    ]
    assert says("decode", m.Exited, life=prefill.life) in out


def test_an_exit_is_told_to_executors_that_come_later():
    rig = SchedulerRig()
    rig.up(LAUNCHER)
    rig.hear(LAUNCHER, m.Exited(Life("prefill", 4)))
    rig.hear(LAUNCHER, m.Exited(Life("prefill", 2)))
    assert rig.up(an_executor("decode", Role.DECODE)) == [says("decode", m.Exited, life=Life("prefill", 4))]


def test_a_reconnect_grants_exactly_what_the_inventory_says():
    rig = SchedulerRig()
    unified = unified_of(rig, num_blocks=16)
    rig.submit(1, work(prompt(8), max_tokens=4))
    rig.down(unified)
    rig.join(unified, live=((AttemptId(1, 0), 3),), num_blocks=12, num_slots=15)
    assert rig.core._fleet.ledger.available(0) == (12, 15)
    assert rig.core._fleet.get("unified").num_pending_tokens == 3
    assert rig.core.gauges()["placed"] == 1


def test_rtr_04_what_an_executor_should_hold_and_does_not_is_failed():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    rig.submit(1)
    rig.submit(2)
    rig.down(decode)
    out = rig.join(decode, pairs=(prefill.life,), live=((AttemptId(2, 0), 0),), num_blocks=50)
    assert only(out, m.AttemptFailed, m.Abort) == [
        says("router", m.AttemptFailed, id=AttemptId(1, 0)),
        says("prefill", m.Abort, id=AttemptId(1, 0)),
    ]


def test_kvt_07_a_new_life_of_an_executor_holds_nothing_of_the_old_one():
    rig = SchedulerRig()
    unified = unified_of(rig)
    rig.submit(1)
    rig.down(unified)
    again = replace(unified, epoch=2)
    out = rig.join(again)
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.PEER_LOST, detail="unified") in out
    assert rig.core.quiescent()
    rig.submit(1, attempt=1)
    assert rig.where(1, 1) == ["unified"]


def test_kvt_08_an_executor_of_another_layout_is_not_used_and_that_is_said():
    rig = SchedulerRig()
    pair_of(rig)
    odd = replace(an_executor("decode2", Role.DECODE), layout_fingerprint=b"another model")
    out = rig.join(odd)
    assert only(out, Note) == [like(Note)]
    assert "decode2" not in [peer.name for peer in rig.core._fleet.roster().executors]


def test_every_session_of_routers_prefillers_and_launchers_hears_the_roster():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    assert the(rig.up(LAUNCHER), m.Roster).executors == (decode, prefill)
    out = rig.down(decode)
    assert [(c.peer, len(c.message.executors)) for c in only(out, m.Roster)] == [
        ("launcher", 1),
        ("prefill", 1),
        ("router", 1),
    ]


def test_a_lost_executor_takes_its_credit_along_and_leaves_its_attempts_to_its_return():
    rig = SchedulerRig()
    unified = unified_of(rig)
    rig.submit(1)
    assert messages(rig.down(unified), m.AttemptFailed) == []
    assert rig.core.gauges()["executors"] == 0
    assert rig.core.gauges()["placed"] == 1
    assert rig.submit(2) == []


def test_sch_05_requests_of_a_router_that_left_are_not_placed():
    rig = SchedulerRig()
    unified = unified_of(rig, num_blocks=4)
    rig.submit(1, work(prompt(8), max_tokens=4))
    rig.submit(2, work(prompt(8, 2), max_tokens=4))
    rig.down(ROUTER)
    rig.ended(unified, 1, 3)
    assert rig.core.quiescent()
    assert rig.where(2) == []


def test_requests_of_another_router_stay():
    rig = SchedulerRig()
    unified_of(rig, num_blocks=4)
    other = Peer("router2", Role.ROUTER, 1)
    rig.up(other)
    rig.submit(1, work(prompt(8), max_tokens=4))
    asked = work(prompt(8, 2), max_tokens=4, router=other.life)
    rig.hear(other, m.Submit(AttemptId(2, 0), asked, 60_000))
    rig.down(ROUTER)
    assert rig.core.gauges()["queued"] == 1


def test_kvt_04_reports_of_unknown_attempts_and_executors_are_harmless():
    rig = SchedulerRig()
    prefill, _ = pair_of(rig)
    stranger = an_executor("stranger", Role.DECODE)
    for message in (
        m.Ended(AttemptId(9, 9)),
        m.PairLost(Life("x", 1), Reason.PEER_LOST),
        m.CacheChanged(b"", bytes(16)),
    ):
        assert rig.hear(prefill, message) == []
        assert rig.hear(stranger, message) == []
    assert rig.hear(stranger, m.Credit(5, 5)) == []


def test_an_abort_reaches_every_holder_and_forgets_those_that_are_gone():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    rig.submit(1)
    out = rig.hear(ROUTER, m.Abort(AttemptId(1, 0)))
    assert sorted(c.peer for c in only(out, m.Abort)) == ["decode", "prefill"]
    rig.down(prefill)
    rig.hear(ROUTER, m.Abort(AttemptId(1, 0)))
    rig.ended(decode, 1, 4)
    assert rig.core.quiescent()
