"""P14: a block that several attempts share is sent to one decode executor once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Span, Wake
from baton.core.executor.events import TransportClosed, TransportFailed
from baton.core.executor.sequence import Compute, Transfer
from baton.core.ids import AttemptId, Life
from baton.core.wire import messages as m
from tests.support.expect import messages, says, the
from tests.support.machines import LAYOUT, P2, ROUTER, SCHEDULER, P, decoder, prompt, sampled, unpacked, work

BLOCK_BYTES = 256


def shared(number: int, num_shared: int = 16, num_own: int = 4) -> list[int]:
    """A prompt that begins as all of these do."""
    return prompt(num_shared) + prompt(num_own, 100 + number)


def land(rig, transfer_id: int, peer=P, token: int = 7):
    """All that the writer says of a transfer, in one chunk."""
    out = rig.hear(peer, m.ChunkPosted(transfer_id, 0, BLOCK_BYTES))
    out += rig.hear(peer, m.ChunkLanded(transfer_id, 0))
    return out + rig.hear(peer, m.Sealed(transfer_id, 1, sampled(token)))


def test_p14_blocks_that_are_on_their_way_are_not_asked_for_again():
    rig = decoder()
    first = the(rig.decode(1, work(shared(1)), P), m.Receive)
    assert (first.first_block, len(unpacked(first.block_ids))) == (0, 5)
    assert messages(rig.decode(2, work(shared(2)), P), m.Receive) == []
    second = the(land(rig, 1), m.Receive)
    assert (second.id, second.first_block, len(unpacked(second.block_ids))) == (AttemptId(2, 0), 4, 1)
    assert rig.core.gauges()["kv_bytes_not_sent_total"] == 4 * BLOCK_BYTES
    land(rig, second.transfer_id)
    rig.finish_steps()
    assert rig.core.quiescent()
    assert rig.books()["blocks_free"] == 64


def test_p14_and_w2_a_sharer_holds_its_memory_from_the_start_and_gives_back_what_it_shares_counted():
    rig = decoder()
    rig.decode(1, work(shared(1)), P)
    free = rig.books()["blocks_free"]
    asked = rig.demand(work(shared(2))).decode_blocks
    rig.decode(2, work(shared(2)), P)
    assert rig.books()["blocks_free"] == free - asked
    assert rig.books()["slots_used"] == 2
    out = land(rig, 1)
    assert rig.books()["blocks_free"] == free - asked + 4
    assert rig.core.gauges()["blocks_returned_shared_total"] == 4
    assert sum(message.num_blocks for message in messages(out, m.Credit)) == 4


def test_p14_many_attempts_with_one_prompt_bring_its_full_blocks_once():
    rig = decoder(num_blocks=400, num_slots=32)
    named = 0
    receives = []
    for number in range(1, 33):
        receives += messages(rig.decode(number, work([*prompt(32), 7_000 + number]), P), m.Receive)
    assert len(receives) == 1
    while receives:
        receive = receives.pop(0)
        named += len(unpacked(receive.block_ids))
        receives += messages(land(rig, receive.transfer_id), m.Receive)
    assert named == 8 + 32  # its full blocks once, and the last, partial one of each
    rig.finish_steps()
    assert rig.books()["blocks_free"] == 400


def test_p14_it_waits_only_where_that_saves_at_least_half_of_the_blocks():
    rig = decoder()
    rig.decode(1, work(shared(1, 8, 4)), P)
    assert len(messages(rig.decode(2, work(shared(2, 8, 9)), P), m.Receive)) == 1  # 2 of 5 blocks
    assert len(messages(rig.decode(3, work(shared(3, 8, 8)), P), m.Receive)) == 0  # 2 of 4
    assert len(messages(rig.decode(4, work(prompt(12, 4)), P), m.Receive)) == 1


def test_p14_what_lies_here_already_counts_neither_as_saved_nor_as_sent():
    rig = decoder()
    rig.decode(1, work(shared(1, 8, 0), max_tokens=1), P)
    land(rig, 1)
    rig.finish_steps()
    rig.decode(2, work(shared(2, 8, 0) + prompt(16, 9)), P)
    assert messages(rig.decode(3, work(shared(3, 8, 0) + prompt(16, 9)), P), m.Receive) == []
    assert the(land(rig, 2), m.Receive).first_block == 6


def test_p14_and_p1_nobody_waits_for_blocks_behind_the_last_saved_state_of_a_prompt():
    layout = replace(LAYOUT, checkpoint_blocks=4)
    rig = decoder(layout=layout)
    rig.decode(1, work(shared(1, 12, 0), layout=layout), P)  # three blocks: none of them is of use to others
    assert len(messages(rig.decode(2, work(shared(2, 12), layout=layout), P), m.Receive)) == 1
    rig.decode(3, work(prompt(24, 7), layout=layout), P)  # four blocks of six are
    assert messages(rig.decode(4, work(prompt(24, 7), layout=layout), P), m.Receive) == []
    assert the(land(rig, 3), m.Receive).first_block == 4


def test_p14_another_salt_shares_nothing():
    rig = decoder()
    rig.decode(1, work(shared(1)), P)
    assert len(messages(rig.decode(2, work(shared(2), salt=b"x"), P), m.Receive)) == 1


def test_p14_shared_blocks_may_come_from_another_prefill_executor():
    rig = decoder(P, P2)
    rig.decode(1, work(shared(1)), P)
    assert messages(rig.decode(2, work(shared(2)), P2), m.Receive) == []
    out = land(rig, 1)
    assert says("prefill2", m.Receive, id=AttemptId(2, 0), first_block=4) in out


@pytest.mark.parametrize("ending", ["abort", "failed", "deadline", "lost", "ended", "broken", "router"])
def test_p14_when_the_carrier_fails_the_next_in_order_carries_and_the_others_wait_for_it(ending):
    rig = decoder(P, P2, share_wait_s=5.0)
    before = rig.books()
    rig.decode(1, work(shared(1)), P, left_ms=1000)
    rig.decode(2, work(shared(2)), P2)
    rig.decode(3, work(shared(3)), P2)
    match ending:
        case "abort":
            out = rig.abort(1)
        case "failed":
            out = rig.hear(P, m.TransferClosed(1, Reason.TRANSFER_FAILED, False))
        case "deadline":
            out = rig.do(Wake(), 1.5)
        case "lost":
            out = rig.down(P)
        case "ended":
            out = rig.hear(P, m.TransferClosed(1, None))
        case "broken":
            out = rig.do(TransportFailed("prefill", 1, "broke"))
            out += rig.hear(P, m.TransferClosed(1, Reason.TRANSFER_FAILED))
        case "router":
            out = rig.hear(ROUTER, m.RouterInventory(((AttemptId(2, 0), ()), (AttemptId(3, 0), ()))))
    receive = the(out, m.Receive)
    assert (receive.id, receive.first_block) == (AttemptId(2, 0), 0)
    third = the(land(rig, receive.transfer_id, P2), m.Receive)
    assert (third.id, third.first_block) == (AttemptId(3, 0), 4)
    land(rig, third.transfer_id, P2)
    rig.finish_steps()
    rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    if ending in ("failed", "lost"):
        rig.hear(SCHEDULER, m.Exited(Life("prefill", 1)))
    rig.do(TransportClosed("prefill", 1))
    assert rig.books() == before


@pytest.mark.parametrize("ending", ["abort", "deadline", "lost", "router"])
def test_p14_a_sharer_that_ends_while_it_waits_gives_all_back_at_once_and_leaves_nothing(ending):
    rig = decoder(P, P2, share_wait_s=5.0)
    rig.decode(1, work(shared(1)), P)
    before = rig.books()
    rig.decode(2, work(shared(2)), P2, left_ms=1000)
    match ending:
        case "abort":
            out = rig.abort(2)
        case "deadline":
            out = rig.do(Wake(), 1.5)
        case "lost":
            out = rig.down(P2)
            assert says("router", m.AttemptFailed, id=AttemptId(2, 0), reason=Reason.PEER_LOST) in out
        case "router":
            out = rig.hear(ROUTER, m.RouterInventory(((AttemptId(1, 0), ()),)))
    assert says("scheduler", m.Ended, id=AttemptId(2, 0)) in out
    assert rig.books() == before
    assert messages(land(rig, 1), m.Receive) == []


def test_p14_a_sharer_whose_pair_is_gone_when_its_turn_comes_fails_at_once():
    rig = decoder(P, P2)
    rig.decode(1, work(shared(1)), P)
    rig.decode(2, work(shared(2)), P2)
    rig.do(TransportFailed("prefill2", 1, "broke"))
    out = land(rig, 1)
    assert says("router", m.AttemptFailed, id=AttemptId(2, 0), reason=Reason.LINK_BUSY) in out
    assert says("scheduler", m.Ended, id=AttemptId(2, 0)) in out


def test_p14_and_w6_each_wait_is_told_with_its_reason_and_what_ended_it():
    rig = decoder(share_wait_s=5.0)
    rig.decode(1, work(shared(1)), P)
    for number in (2, 3, 4):
        rig.decode(number, work(shared(number)), P)
    begun = rig.now
    spans = [c for c in rig.do(Wake(), 0.1) + rig.abort(4) if isinstance(c, Span)]
    spans += [c for c in rig.hear(P, m.TransferClosed(1, Reason.TRANSFER_FAILED)) + land(rig, 2) if isinstance(c, Span)]
    told = [(span.request_id, span.ended_by) for span in spans]
    assert told == [(4, "ended"), (2, "failed"), (3, "failed"), (3, "landed")]
    assert {(span.what, span.reason, span.until) for span in spans} == {
        ("shared blocks", Reason.PREFIX_WAIT, begun + 5.0)
    }


def test_p14_and_c28_the_wait_is_bounded_and_wakes_by_itself():
    rig = decoder(share_wait_s=0.3, holding_interval_s=100.0)
    rig.do(Wake())
    rig.decode(1, work(shared(1)), P)
    rig.decode(2, work(shared(2)), P)
    assert rig.core.next_wake == pytest.approx(rig.now + 0.3)
    receive = the(rig.do(Wake(), 0.3), m.Receive)
    assert (receive.id, receive.first_block, len(unpacked(receive.block_ids))) == (AttemptId(2, 0), 0, 5)
    assert rig.core.gauges()["share_waits_expired_total"] == 1
    land(rig, 1)
    land(rig, 2)
    rig.finish_steps()
    assert rig.core.quiescent()


def test_p14_a_second_wait_does_not_renew_the_bound():
    rig = decoder(P, P2, share_wait_s=0.3, holding_interval_s=100.0)
    rig.do(Wake())
    until = rig.now + 0.3
    rig.decode(1, work(shared(1)), P)
    for number in (2, 3):
        rig.decode(number, work(shared(number)), P)
    rig.now += 0.2
    rig.abort(1)  # now the third waits for the second
    assert rig.core.next_wake == pytest.approx(until)
    assert len(messages(rig.do(Wake(), 0.15), m.Receive)) == 1


def test_p14_with_no_wait_allowed_every_transfer_is_opened_at_once():
    rig = decoder(share_wait_s=0.0)
    for number in (1, 2):
        assert len(messages(rig.decode(number, work(shared(number)), P), m.Receive)) == 1
    assert not rig.state.arriving


def test_p14_a_sharer_of_several_choices_shares_too():
    rig = decoder()
    rig.decode(1, work(shared(1)), P)
    rig.decode(2, work(shared(2), num_choices=2), P)
    second = the(land(rig, 1), m.Receive)
    rig.hear(P, m.ChunkLanded(second.transfer_id, 0))
    two = (*sampled(7), *sampled(8, choice=1))
    rig.hear(P, m.Sealed(second.transfer_id, 1, two))
    rig.finish_steps()
    assert rig.core.quiescent()
    assert rig.books()["blocks_free"] == 64


def test_p14_and_g7_a_first_choice_that_is_stopped_while_it_waits_keeps_its_blocks_for_the_others():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(shared(1)), P)
    rig.decode(2, work(shared(2), num_choices=2), P)
    rig.hear(ROUTER, m.Stop(AttemptId(2, 0), 0, 1))
    second = the(land(rig, 1), m.Receive)
    assert len(unpacked(second.block_ids)) == 1
    rig.hear(P, m.ChunkLanded(second.transfer_id, 0))
    rig.hear(P, m.Sealed(second.transfer_id, 1, (*sampled(7), *sampled(8, choice=1))))
    rig.finish_steps()
    assert rig.books() == before


def test_p14_and_g7_an_attempt_whose_choices_were_all_stopped_while_it_waits_is_over():
    rig = decoder()
    rig.decode(1, work(shared(1)), P)
    before = rig.books()
    rig.decode(2, work(shared(2), num_choices=2), P)
    rig.hear(ROUTER, m.Stop(AttemptId(2, 0), 0, 1))
    rig.hear(ROUTER, m.Stop(AttemptId(2, 0), 1, 1))
    assert rig.books() == before
    assert not rig.state.sharers


def test_p14_decode_steps_go_on_while_sharers_wait():
    rig = decoder()
    rig.decode(1, work(prompt(8, 5), max_tokens=4), P)
    land(rig, 1)
    rig.decode(2, work(shared(2)), P)
    rig.decode(3, work(shared(3)), P)
    assert len(messages(rig.finish_steps(), m.Ended)) == 1
    assert rig.core.gauges()["transfers_waiting_to_share"] == 1


def test_x1_the_invariants_find_a_wedged_sharer():
    rig = decoder()
    rig.decode(1, work(shared(1)), P)
    rig.decode(2, work(shared(2)), P)
    sharer = rig.state.sharers.pop(AttemptId(2, 0))
    sharer.group.first.num_owners -= 1
    with pytest.raises(InvariantViolated, match="or neither"):
        rig.core.check_invariants()
    rig.state.sharers[AttemptId(2, 0)] = sharer
    sharer.group.first.num_owners += 1
    sharer.carrier = None
    with pytest.raises(InvariantViolated, match="is over"):
        rig.core.check_invariants()


def test_x1_the_invariants_find_wrong_books_of_what_is_on_its_way():
    rig = decoder()
    rig.decode(1, work(shared(1)), P)
    (transfer,) = rig.state.incoming.values()
    rig.state.arriving[bytes(16)] = transfer
    with pytest.raises(InvariantViolated, match="does not come by"):
        rig.core.check_invariants()
    del rig.state.arriving[bytes(16)]
    rig.core.check_invariants()
    sequence = transfer.group.first
    before, sequence.compute = sequence.compute, Compute.ENDED
    with pytest.raises(InvariantViolated, match="is open and its attempt is over"):
        rig.core.check_invariants()
    sequence.compute = before
    rig.decode(2, work(shared(2)), P)
    sharer = rig.state.sharers[AttemptId(2, 0)]
    group = rig.state.groups.pop(AttemptId(2, 0))
    sequence = group.first
    before, sequence.compute = sequence.compute, Compute.ENDED
    with pytest.raises(InvariantViolated, match="waits for blocks and is over"):
        rig.core.check_invariants()
    rig.state.groups[AttemptId(2, 0)] = group
    sequence.compute = before
    rig.state.arriving.clear()
    transfer.status = Transfer.QUARANTINED
    with pytest.raises(InvariantViolated, match="wait for it"):
        rig.core.check_invariants()
    assert sharer.carrier is transfer


@given(st.data())
def test_p14_whatever_lands_fails_and_ends_nothing_is_lost_and_nobody_waits_for_ever(data):
    rig = decoder(P, P2, num_blocks=120, share_wait_s=data.draw(st.sampled_from([0.0, 0.05, 10.0])))
    before = rig.books()
    peers = {P.life: P, P2.life: P2}
    for number in range(1, data.draw(st.integers(2, 8)) + 1):
        asked = shared(number, data.draw(st.integers(0, 20)), data.draw(st.integers(1, 8)))
        rig.decode(number, work(asked, max_tokens=2), data.draw(st.sampled_from([P, P2])))
        rig.now += data.draw(st.sampled_from([0.0, 0.02]))
        _happen(rig, peers, data)
    for _ in range(100):
        if rig.core.quiescent():
            break
        _happen(rig, peers, data, only_good=True)
    assert rig.core.quiescent()
    assert rig.books() == before


def _happen(rig, peers, data, only_good: bool = False) -> None:
    """One thing more, of any transfer."""
    transfers = list(rig.state.incoming.values())
    moves = ["wait", *["land"] * (2 * bool(transfers)), *(["fail", "abort"] if not only_good else []), "steps"]
    move = "land" if only_good and transfers else data.draw(st.sampled_from(moves))
    if move == "steps" or not transfers:
        rig.finish_steps()
        return
    transfer = data.draw(st.sampled_from(transfers)) if not only_good else transfers[0]
    if move == "wait":
        rig.do(Wake(), 0.1)
    elif move == "abort":
        rig.abort(data.draw(st.integers(1, 8)))
    elif move == "fail" or transfer.status.name == "QUARANTINED":
        rig.hear(peers[transfer.peer], m.TransferClosed(transfer.transfer_id, Reason.TRANSFER_FAILED))
    else:
        land(rig, transfer.transfer_id, peers[transfer.peer])
