"""Placing: credit is spent once, a pair is told in one turn, and what is placed always fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, pair_of, unified_of


def test_a_pair_and_the_router_are_told_in_one_turn_where_the_decode_executor_has_room():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    out = rig.submit(1, work(prompt(10), max_tokens=4))
    assert out == [
        says("prefill", m.Prefill, id=AttemptId(1, 0), num_blocks=3),
        says("decode", m.Decode, id=AttemptId(1, 0), prefill=prefill.life, num_blocks=4, time_left_ms=60_000),
        says("router", m.Placed, id=AttemptId(1, 0), prefill=prefill.life, decode=decode.life),
        like(Note, what="placed", request_id=1, reason=None),
    ]


def test_a_unified_executor_gets_one_run():
    rig = SchedulerRig()
    unified = unified_of(rig)
    out = rig.submit(1, work(prompt(10), max_tokens=4))
    assert only(out, m.Run, m.Placed) == [
        says("unified", m.Run, id=AttemptId(1, 0), num_blocks=4),
        says("router", m.Placed, prefill=unified.life, decode=unified.life),
    ]


def test_w2_nothing_is_spent_unless_all_of_it_can_be():
    """A pair without a prefill slot, then one without a decode slot: the other's credit stays whole."""
    rig = SchedulerRig()
    pair_of(rig, p={"num_slots": 1})
    rig.submit(1)
    assert rig.submit(2) == []
    assert rig.core._fleet.ledger.available(1) == (60, 15)
    rig = SchedulerRig()
    pair_of(rig, d={"num_slots": 1})
    rig.submit(1)
    rig.submit(2)
    assert rig.where(2) == ["prefill"]
    assert rig.core._fleet.ledger.available(1) == (60, 0)


def test_kvt_10_whole_requests_are_reserved_before_the_first_of_their_chunks():
    """A decode pool for one and a half requests, four requests: each gets all of its memory there or none of it."""
    rig = SchedulerRig()
    _, decode = pair_of(rig, d={"num_blocks": 9})
    for number in range(1, 5):
        rig.submit(number, work(prompt(20, number), max_tokens=4))
    assert [len(rig.where(number)) for number in range(1, 5)] == [2, 1, 1, 1]
    for number in range(1, 4):
        rig.ended(decode, number, 6)
        assert len(rig.where(number + 1)) == 2


@given(st.data())
def test_what_is_placed_always_fits_and_all_credit_is_back_in_the_end(data):
    rig = SchedulerRig(bypass_s=1.0)
    prefill, decode = pair_of(rig, p={"num_blocks": 24, "num_slots": 3}, d={"num_blocks": 24, "num_slots": 4})
    left = {"prefill": [24, 3], "decode": [24, 4]}
    taken: dict[tuple[str, AttemptId], tuple[int, int, int]] = {}
    seen = 0

    def watch(out):
        nonlocal seen
        for name, message in [(c.peer, c.message) for c in only(out, m.Prefill, m.Decode)]:
            slots = 1 if name == "prefill" else message.work.num_choices
            taken[name, message.id] = (message.num_blocks, slots, message.work.num_tokens if name == "prefill" else 0)
            left[name][0] -= message.num_blocks
            left[name][1] -= slots
            assert min(left[name]) >= 0
        seen += len(messages(out, m.Placed))

    def end(name, work_id):
        blocks, slots, tokens = taken.pop((name, work_id))
        left[name][0] += blocks
        left[name][1] += slots
        peer = prefill if name == "prefill" else decode
        watch(rig.hear(peer, m.Ended(work_id)))
        watch(rig.hear(peer, m.Credit(blocks, slots, tokens)))

    for number in range(1, data.draw(st.integers(1, 20)) + 1):
        asked = work(prompt(data.draw(st.integers(1, 30)), number), 4, num_choices=data.draw(st.integers(1, 3)))
        watch(rig.submit(number, asked, after_s=data.draw(st.sampled_from([0.0, 0.7])), tenant=str(number % 2)))
        if data.draw(st.booleans()) and taken:
            end(*data.draw(st.sampled_from(sorted(taken))))
        if data.draw(st.integers(0, 4)) == 0:
            watch(rig.hear(ROUTER, m.Abort(AttemptId(data.draw(st.integers(1, number)), 0))))
    while taken:
        end(*min(taken))
    assert rig.core.quiescent()
    assert [rig.core._fleet.ledger.available(e.index) for e in rig.core._fleet] == [(24, 3), (24, 4)]


def test_a_request_goes_where_its_prompt_is_computed_first():
    rig = SchedulerRig()
    _, decode = pair_of(rig)
    other = an_executor("prefill2", Role.PREFILL)
    rig.join(other)
    rig.hear(decode, m.PairReady(other.life))
    rig.submit(1, work(prompt(40, 1)))
    rig.submit(2, work(prompt(40, 2)))
    assert [rig.where(1)[0], rig.where(2)[0]] == ["prefill", "prefill2"]


def test_a_request_goes_where_its_prefix_is_as_long_as_that_is_sooner():
    rig = SchedulerRig(steps_ahead=4.0)
    asked = work(prompt(41, 1))
    for name, cached in (("u1", b""), ("u2", asked.hashes)):
        rig.join(an_executor(name, Role.UNIFIED, num_blocks=256), cached=cached)
    rig.submit(1, work(prompt(16, 5)))
    assert rig.where(1) == ["u1"]
    rig.submit(2, asked)
    assert rig.where(2) == ["u2"]
    assert rig.core._fleet.get("u2").num_pending_tokens == 1  # the others lie there


def test_a_prefill_executor_is_fed_a_bounded_number_of_steps_ahead():
    rig = SchedulerRig(steps_ahead=2.0)
    prefill, _ = pair_of(rig, p={"token_budget": 16})
    for number in range(1, 7):
        rig.submit(number, work(prompt(16, number)))
    assert [len(rig.where(number)) for number in range(1, 7)] == [2, 2, 0, 0, 0, 0]
    rig.hear(prefill, m.Credit(0, 0, 16))
    assert [len(rig.where(number)) for number in range(3, 7)] == [2, 0, 0, 0]


def test_only_paired_executors_are_used_together():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    rig.hear(decode, m.PairLost(prefill.life, Reason.QUARANTINE))
    assert rig.submit(1) == []
    out = rig.hear(decode, m.PairReady(prefill.life))
    assert len(messages(out, m.Placed)) == 1


def test_a_draining_executor_gets_nothing_new():
    rig = SchedulerRig()
    _, decode = pair_of(rig)
    rig.hear(decode, m.Draining())
    assert rig.submit(1) == []
    assert rig.core.readiness() != ""


def test_g7_a_request_with_choices_needs_as_many_slots_on_the_decode_executor_alone():
    rig = SchedulerRig()
    pair_of(rig, p={"num_slots": 1}, d={"num_slots": 3})
    rig.submit(1, work(prompt(8), num_choices=3))
    assert len(rig.where(1)) == 2
    rig.submit(2, work(prompt(8, 2)))
    assert rig.where(2) == []


def test_reclaim_is_answered_with_unspent_credit_at_most_what_was_asked():
    rig = SchedulerRig()
    unified = unified_of(rig, num_blocks=10)
    rig.submit(1, work(prompt(12), max_tokens=4))
    assert the(rig.hear(unified, m.Reclaim(3)), m.Returned) == m.Returned(3)
    assert the(rig.hear(unified, m.Reclaim(30)), m.Returned) == m.Returned(3)
    assert the(rig.hear(unified, m.Reclaim(1)), m.Returned) == m.Returned(0)


def test_rtr_07_and_api_07_a_submit_that_is_said_twice_is_placed_once():
    rig = SchedulerRig()
    prefill, decode = pair_of(rig)
    rig.submit(1)
    out = rig.submit(1)
    assert out == [says("router", m.Placed, id=AttemptId(1, 0), prefill=prefill.life, decode=decode.life)]
    assert len(rig.where(1)) == 2
    rig.hear(decode, m.Draining())
    rig.submit(2)
    assert rig.submit(2) == []
    assert rig.core.gauges()["queued"] == 1


def test_x3_the_same_events_give_the_same_commands():
    rig = SchedulerRig()
    _, decode = pair_of(rig, d={"num_blocks": 16})
    for number in range(1, 12):
        rig.submit(number, work(prompt(number, number)), after_s=0.1, tenant="ab"[number % 2])
    for number in range(1, 12):
        if rig.where(number):
            rig.ended(decode, number, 3)
    rig.hear(ROUTER, m.Abort(AttemptId(9, 0)))
    twin = SchedulerRig()
    for event, now, out in rig.turns:
        twin.now = now
        assert twin.do(event) == out
