"""Tokens and ends: offsets, stops, ends at the first token, readers that come and go, resumption."""

from __future__ import annotations

import pytest

from baton.core.errors import Reason
from baton.core.events import Wake
from baton.core.executor.events import Drain, Launch, Post
from baton.core.ids import AttemptId, Peer, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import (
    ROUTER,
    SCHEDULER,
    D,
    P,
    decoder,
    prefiller,
    prompt,
    records_in,
    sampled,
    send_to,
    tokens_told,
    unified,
    work,
)

END = 1_000_100  #: what sequence 1 samples for choice 0


def test_g1_records_carry_attempt_and_offset_and_decode_says_the_first_token_again():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8)))
    of_writer = records_in(rig.step_done())
    assert [(r.id, r.offset, len(r.tokens)) for r in of_writer] == [(AttemptId(1, 0), 0, 1)]

    rig = decoder()
    rig.decode(1, work(prompt(8)), P)
    rig.hear(P, m.ChunkLanded(1, 0))
    of_reader = records_in(rig.hear(P, m.Sealed(1, 1, of_writer[0].tokens)))
    assert [(r.offset, r.tokens) for r in of_reader] == [(0, of_writer[0].tokens)]


def test_g1_a_resumed_attempt_counts_offsets_from_the_clients_prompt():
    rig = unified()
    out = rig.run(1, work([*prompt(8), 5, 6, 7], prior=3, max_tokens=5), attempt=1) + rig.finish_steps()
    assert [(r.id.attempt, r.offset, r.finish) for r in records_in(out)] == [(1, 3, ""), (1, 4, "length")]


def test_g2_a_stop_ends_the_choice_at_once():
    rig = unified()
    before = rig.books()
    rig.run(1, work(prompt(8), max_tokens=8))
    rig.step_done()
    out = rig.hear(ROUTER, m.Stop(AttemptId(1, 0), 0, 1))
    assert only(out, Launch, m.Ended) == [says("scheduler", m.Ended, id=AttemptId(1, 0))]
    assert only(rig.finish_steps(), m.Records, Launch) == []
    assert rig.books() == before


def test_g2_a_stop_that_meets_the_hand_off_ends_both_ends_and_waits_for_proof():
    rig = prefiller()
    before = rig.books()
    send_to(rig, 1, work(prompt(8)))
    rig.step_done()
    out = rig.hear(ROUTER, m.Stop(AttemptId(1, 0), 0, 1))
    assert only(out, m.Ended, m.TransferClosed) == [says("scheduler", m.Ended)]
    assert the(rig.land_pieces(), m.TransferClosed) == m.TransferClosed(1, Reason.ABORTED)
    assert rig.books() == before


@pytest.mark.parametrize("asked", [{"max_tokens": 1}, {"max_tokens": 5, "stop": (END,)}])
def test_g6_and_rtr_02_an_end_at_the_first_token_sends_and_activates_nothing(asked):
    rig = prefiller()
    before = rig.books()
    send_to(rig, 1, work(prompt(8), **asked))
    out = rig.step_done()
    assert only(out, m.Sealed, Post, m.TransferClosed) == [says("decode", m.TransferClosed, transfer_id=1, reason=None)]
    assert [r.finish for r in records_in(out)] == ["length" if asked["max_tokens"] == 1 else "stop"]
    assert rig.books() == before


def test_g6_chunks_that_are_under_way_are_drained_before_the_transfer_closes():
    rig = prefiller(token_budget=4)
    before = rig.books()
    send_to(rig, 1, work(prompt(8), max_tokens=1))
    rig.step_done()
    out = rig.step_done()
    assert only(out, m.TransferClosed, Post) == []
    assert the(rig.piece_landed(), m.TransferClosed) == m.TransferClosed(1, None)
    assert rig.books() == before


@pytest.mark.parametrize(("max_tokens", "stop", "told"), [(1, (), 1), (2, (), 2), (5, (), 5), (5, (END,), 1)])
def test_rtr_02_exactly_as_many_tokens_as_were_asked_for(max_tokens, stop, told):
    rig = unified()
    out = rig.run(1, work(prompt(8), max_tokens=max_tokens, stop=stop)) + rig.finish_steps()
    assert len(tokens_told(out, 1)) == told
    assert [r.finish for r in records_in(out) if r.finish] == ["stop" if stop else "length"]


def test_a_token_after_the_end_that_was_already_launched_is_not_told():
    rig = unified()
    before = rig.books()
    rig.run(1, work(prompt(8), stop=(END,)))
    assert len(rig.steps) == 2  # the second decodes a token that the first is still sampling
    out = rig.finish_steps()
    assert tokens_told(out, 1) == [END]
    assert rig.books() == before


def test_g5_no_step_waits_for_a_reader_and_the_outbox_is_merged():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=6))
    rig.down(ROUTER)
    out = rig.finish_steps()
    assert records_in(out) == []
    assert rig.core.quiescent()
    out = rig.up(ROUTER)
    (record,) = records_in(out)
    assert (record.offset, len(record.tokens), record.finish) == (0, 6, "length")


def test_g5_a_reconnecting_router_names_the_offset_that_it_lacks_and_gets_the_rest_again():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=6))
    rig.step_done()
    lost = rig.step_done()
    assert len(records_in(lost)) == 1
    rig.down(ROUTER)
    rig.step_done()
    rig.up(ROUTER)
    out = rig.hear(ROUTER, m.RouterInventory(((AttemptId(1, 0), ((0, 1),)),)))
    assert [(r.offset, len(r.tokens)) for r in records_in(out)] == [(1, 2)]


def test_g5_what_a_reconnecting_router_does_not_name_is_aborted():
    rig = unified()
    before = rig.books()
    rig.run(1, work(prompt(8)))
    rig.down(ROUTER)
    rig.up(ROUTER)
    out = rig.hear(ROUTER, m.RouterInventory(()))
    assert says("scheduler", m.Ended, id=AttemptId(1, 0)) in out
    rig.finish_steps()
    assert rig.books() == before


def test_sch_05_a_router_that_does_not_come_back_ends_its_requests():
    rig = unified(router_silence_s=30.0)
    before = rig.books()
    rig.run(1, work(prompt(8)))
    rig.down(ROUTER)
    assert rig.core.next_wake == rig.now + 30.0
    out = rig.do(Wake(), after_s=30.0)
    assert says("scheduler", m.Ended, id=AttemptId(1, 0)) in out
    rig.finish_steps()
    assert rig.books() == before
    assert rig.core.next_wake != rig.now


def test_a_new_life_of_a_router_ends_the_requests_of_the_old_one():
    rig = unified()
    rig.run(1, work(prompt(8)))
    out = rig.up(Peer("router", Role.ROUTER, 2))
    assert says("scheduler", m.Ended, id=AttemptId(1, 0)) in out


def test_records_of_a_life_of_a_router_are_never_told_to_another_one():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=3))
    rig.down(ROUTER)
    rig.finish_steps()
    assert only(rig.up(Peer("router", Role.ROUTER, 2)), m.Records) == []


def test_holding_names_what_each_router_has_here_once_a_period():
    rig = unified(holding_interval_s=1.0)
    rig.run(1, work(prompt(8)))
    out = rig.do(Wake(), after_s=1.0)
    assert the(out, m.Holding).live == (AttemptId(1, 0),)
    assert rig.core.next_wake == rig.now + 1.0
    assert only(rig.do(Wake()), m.Holding) == []


def test_c28_the_deadline_of_a_request_is_the_next_wake_and_ends_it():
    rig = unified(holding_interval_s=100.0)
    rig.do(Wake())
    rig.run(1, work(prompt(8)), left_ms=2000)
    assert rig.core.next_wake == rig.now + 2.0
    out = rig.do(Wake(), after_s=2.0)
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.DEADLINE) in out
    rig.finish_steps()
    assert rig.core.quiescent()


def test_rtr_07_an_old_attempt_and_its_next_one_may_be_here_at_once_and_do_not_mix():
    rig = unified()
    before = rig.books()
    rig.run(1, work(prompt(8), max_tokens=3))
    rig.run(1, work(prompt(8), max_tokens=3), attempt=1)
    rig.abort(1)
    out = rig.finish_steps()
    assert {r.id.attempt for r in records_in(out)} == {1}
    assert len(tokens_told(out, 1, attempt=1)) == 3
    assert rig.books() == before


def test_api_07_a_second_attempt_under_a_live_id_is_refused_and_counted():
    rig = unified()
    rig.run(1, work(prompt(8, 1), max_tokens=3))
    rig.run(1, work(prompt(8, 2), max_tokens=3))
    assert rig.core.gauges()["refused_after_placement_total"] == 1
    rig.finish_steps()
    assert rig.books()["blocks_free"] == 64


def test_a_draining_executor_finishes_what_runs_and_grants_nothing():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=3))
    out = rig.do(Drain())
    assert says("scheduler", m.Draining) in out
    out = rig.finish_steps()
    assert len(tokens_told(out, 1)) == 3
    assert all(credit.num_blocks == credit.num_slots == 0 for credit in messages(out, m.Credit))
    assert the(rig.up(SCHEDULER), m.ExecutorInventory).draining


def test_g8_a_lost_receiver_fails_the_attempt_at_the_writer_so_that_it_is_resumed():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8)))
    rig.step_done()
    out = rig.down(D)
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.PEER_LOST) in out
    rig.land_pieces()
    assert rig.core.quiescent()


def test_g8_a_resumed_attempt_receives_only_its_prompt_and_goes_on_where_the_client_is():
    rig = decoder()
    asked = work([*prompt(8), 5, 6], prior=2, max_tokens=5)
    rig.decode(1, asked, P, attempt=1)
    rig.hear(P, m.ChunkLanded(1, 0))
    out = rig.hear(P, m.Sealed(1, 1, sampled(7))) + rig.finish_steps()
    assert [r.offset for r in records_in(out)] == [2, 3, 4]
    assert records_in(out)[-1].finish == "length"
