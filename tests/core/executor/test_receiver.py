"""The receiving end of a hand-off: activation by the writer's words alone, and quarantine until proof."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.executor.events import CloseTransport, Drive, Launch, TransportClosed
from baton.core.ids import AttemptId, Life
from baton.core.wire import messages as m
from tests.support.expect import like, only, says, the
from tests.support.machines import P2, SCHEDULER, P, an_executor, decoder, prompt, sampled, tokens_told, work


def words(num_chunks: int, transfer_id: int = 1, token: int = 7):
    """All that a writer says of a transfer, in its order."""
    said = []
    for chunk in range(num_chunks):
        said += [m.ChunkPosted(transfer_id, chunk, 256), m.ChunkLanded(transfer_id, chunk)]
    return [*said, m.Sealed(transfer_id, num_chunks, sampled(token))]


def test_h9_it_activates_with_the_last_chunk_without_a_word_of_the_scheduler():
    rig = decoder()
    rig.decode(1, work(prompt(12)), P)
    for message in words(3)[:-1]:
        assert only(rig.hear(P, message), Launch) == []
    out = rig.hear(P, m.Sealed(1, 3, sampled(7)))
    step = only(out, Launch)[0].plan
    assert (rig.rows(step)[0].start, rig.rows(step)[0].num_tokens) == (12, 1)
    assert tokens_told(out, 1) == [7]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_h9_and_kvt_04_the_order_of_landed_and_sealed_does_not_matter(order):
    rig = decoder()
    rig.decode(1, work(prompt(8)), P)
    said = [m.ChunkLanded(1, 0), m.ChunkLanded(1, 1), m.Sealed(1, 2, sampled(7))]
    out = [rig.hear(P, said[index]) for index in order]
    assert [len(only(commands, Launch)) for commands in out] == [0, 0, 2]


@given(st.data())
def test_h9_and_kvt_04_late_and_double_messages_activate_once(data):
    rig = decoder()
    rig.decode(1, work(prompt(12), max_tokens=3), P)
    said = words(3)
    copies = data.draw(st.lists(st.sampled_from(said), max_size=6))
    missing = [message for message in said if not isinstance(message, m.ChunkPosted)]
    for message in data.draw(st.permutations(said + copies)):
        missing = [other for other in missing if other != message]
        assert bool(only(rig.hear(P, message), Launch)) <= (not missing)
    out = rig.finish_steps()
    assert len(only(out, m.Ended)) == 1
    for message in copies:
        assert rig.hear(P, message) == []
    assert rig.books()["blocks_free"] == 64


def test_h9_the_transport_is_driven_from_the_first_posted_chunk_to_the_last_landed_one():
    rig = decoder()
    assert only(rig.decode(1, work(prompt(8)), P), Drive) == []
    driven = [only(rig.hear(P, message), Drive) for message in words(2)]
    on, off = Drive("prefill", 1, True), Drive("prefill", 1, False)
    assert driven == [[on], [off], [on], [off], []]


def test_kvt_01_a_message_of_another_process_names_none_of_this_ones_transfers():
    rig = decoder(P, P2)
    rig.decode(1, work(prompt(8)), P)
    for message in words(2):
        assert only(rig.hear(P2, message), Launch) == []
    restarted = an_executor("prefill", P.role, epoch=2)
    rig.hear(restarted, m.TransferClosed(1, None))
    assert rig.books()["transfers_incoming"] == 1
    assert rig.state.counters["late_transfer_messages"] == 6


def test_kvt_02_blocks_of_an_aborted_transfer_are_not_reused_while_writes_may_land():
    rig = decoder(num_blocks=8)
    out = rig.decode(1, work(prompt(16, 1), max_tokens=1), P)
    named = the(out, m.Receive).block_ids
    rig.hear(P, m.ChunkPosted(1, 0, 256))
    out = rig.abort(1)
    assert only(out, m.CloseTransfer, m.Ended, m.Credit) == [
        says("prefill", m.CloseTransfer, transfer_id=1),
        says("scheduler", m.Ended, id=AttemptId(1, 0)),
    ]
    second = the(rig.decode(2, work(prompt(16, 2), max_tokens=1), P), m.Receive).block_ids
    assert set(memoryview(named).cast("i")).isdisjoint(memoryview(second).cast("i"))
    out = rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert says("scheduler", m.Credit, num_blocks=4, num_slots=1) in out


def test_kvt_02_silence_reconnects_and_a_new_epoch_prove_nothing():
    rig = decoder()
    rig.decode(1, work(prompt(16)), P)
    rig.hear(P, m.ChunkPosted(1, 0, 256))
    rig.down(P)
    assert rig.books()["blocks_free"] == 64 - 6
    rig.up(P)
    assert rig.books()["blocks_free"] == 64 - 6
    rig.down(P)
    rig.up(an_executor("prefill", P.role, epoch=2))
    assert rig.books()["blocks_free"] == 64 - 6


def test_kvt_02_the_writers_exit_and_the_closed_transport_together_are_the_proof():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(16)), P)
    rig.hear(P, m.ChunkPosted(1, 0, 256))
    rig.down(P)
    assert rig.hear(SCHEDULER, m.Exited(Life("prefill", 1))) == [CloseTransport("prefill", 1)]
    assert rig.books()["blocks_free"] == 64 - 6
    rig.do(TransportClosed("prefill", 1))
    assert rig.books() == before


def test_kvt_02_the_exit_of_a_later_life_proves_the_end_of_the_earlier_ones():
    rig = decoder()
    rig.decode(1, work(prompt(16)), P)
    rig.down(P)
    out = rig.hear(SCHEDULER, m.Exited(Life("prefill", 3)))
    assert like(CloseTransport, peer="prefill", peer_epoch=1) in out


def test_kvt_02_the_exit_of_an_earlier_life_proves_nothing_of_this_one():
    rig = decoder()
    rig.decode(1, work(prompt(16)), P)
    assert only(rig.hear(SCHEDULER, m.Exited(Life("prefill", 0))), CloseTransport) == []


def test_kvt_03_after_a_reconnect_the_writer_is_asked_again_for_its_proof():
    rig = decoder()
    rig.decode(1, work(prompt(16)), P)
    rig.down(P)
    out = rig.up(P)
    assert the(out, m.CloseTransfer) == m.CloseTransfer(1)
    rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert rig.core.quiescent()


@pytest.mark.parametrize("reason", [Reason.TRANSFER_FAILED, Reason.PEER_LOST, Reason.DEADLINE])
def test_kvt_05_a_failed_transfer_fails_the_attempt_and_decodes_nothing(reason):
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(12)), P)
    for message in words(3)[:4]:
        rig.hear(P, message)
    out = rig.hear(P, m.TransferClosed(1, reason))
    assert only(out, Launch) == []
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=reason) in out
    assert tokens_told(out, 1) == []
    assert rig.books() == before
    assert rig.hear(P, m.ChunkLanded(1, 2)) == []


def test_rtr_04_a_lost_writer_fails_its_attempts_at_once_not_at_a_timeout():
    rig = decoder(P, P2)
    rig.decode(1, work(prompt(12, 1)), P)
    rig.decode(2, work(prompt(12, 2)), P2)
    out = rig.down(P)
    assert only(out, m.AttemptFailed, m.Ended, m.PairLost) == [
        says("scheduler", m.PairLost, prefill=P.life, reason=Reason.PEER_LOST),
        says("scheduler", m.Ended, id=AttemptId(1, 0)),
        says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.PEER_LOST),
    ]
    assert list(rig.state.groups) == [AttemptId(2, 0)]


def test_rtr_05_an_abort_at_the_writer_is_no_end_of_the_answer():
    rig = decoder()
    rig.decode(1, work(prompt(12)), P)
    out = rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert tokens_told(out, 1) == []
    assert the(out, m.AttemptFailed).reason is Reason.ABORTED


def test_g6_a_transfer_that_closes_because_every_choice_ended_is_no_failure():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(12), max_tokens=1), P)
    out = rig.hear(P, m.TransferClosed(1, None))
    assert only(out, m.AttemptFailed, m.Records, Launch) == []
    assert says("scheduler", m.Ended, id=AttemptId(1, 0)) in out
    assert rig.books() == before


def test_quarantine_is_bounded_and_closes_the_pair_until_it_is_proven():
    rig = decoder(quarantine_blocks=4)
    rig.decode(1, work(prompt(16, 1)), P)
    out = rig.abort(1)
    assert says("scheduler", m.PairLost, prefill=P.life, reason=Reason.QUARANTINE) in out
    out = rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert says("scheduler", m.PairReady, prefill=P.life) in out


def test_sch_04_received_blocks_are_found_by_others_only_when_they_have_landed():
    rig = decoder(share_wait_s=0.0)
    rig.decode(1, work(prompt(12)), P)
    rig.hear(P, m.ChunkPosted(1, 0, 256))
    assert the(rig.decode(2, work(prompt(12)), P), m.Receive).first_block == 0
    rig.hear(P, m.TransferClosed(1, Reason.TRANSFER_FAILED))
    assert the(rig.decode(3, work(prompt(12)), P), m.Receive).first_block == 0
    for message in words(3, transfer_id=3):
        rig.hear(P, message)
    assert the(rig.decode(4, work(prompt(12)), P), m.Receive).first_block == 3


def test_a_wholly_cached_prompt_needs_no_block_written_and_waits_for_the_first_token_alone():
    rig = decoder()
    rig.decode(1, work(prompt(8), max_tokens=2), P)
    for message in words(2):
        rig.hear(P, message)
    rig.finish_steps()
    receive = the(rig.decode(2, work(prompt(8), max_tokens=2), P), m.Receive)
    assert (receive.first_block, receive.block_ids) == (2, b"")
    out = rig.hear(P, m.Sealed(2, 0, sampled(7)))
    assert len(only(out, Launch)) == 1


def test_kvt_05_a_seal_with_another_number_of_first_tokens_fails_the_attempt():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(8), num_choices=2), P)
    rig.hear(P, m.ChunkLanded(1, 0))
    out = rig.hear(P, m.Sealed(1, 1, sampled(7)))
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.INTERNAL) in out
    assert only(out, Launch) == []
    rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert rig.books() == before


def test_kvt_02_an_exit_that_is_seen_before_the_silence_fails_the_attempt_with_the_closed_agent():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(12)), P)
    rig.hear(SCHEDULER, m.Exited(P.life))
    assert rig.books()["transfers_incoming"] == 1
    out = rig.do(TransportClosed("prefill", 1))
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.PEER_LOST) in out
    assert rig.books() == before


def test_a_writer_that_ends_badly_what_was_given_up_stays_in_quarantine_until_the_agent_is_closed():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(16, 1)), P)
    rig.abort(1)
    assert rig.books()["transfers_quarantined"] == 1
    out = rig.hear(P, m.TransferClosed(1, Reason.ABORTED, False))
    assert [command.peer for command in only(out, CloseTransport)] == [P.name]
    assert rig.books()["transfers_quarantined"] == 1
    rig.do(TransportClosed(P.name, P.epoch))
    assert rig.books() == before
