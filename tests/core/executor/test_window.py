"""The window bounds bytes in flight and nothing else; what a receiver holds for a transfer is memory."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Wake
from baton.core.executor.events import Launch, PieceFailed, Post
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import P2, SCHEDULER, D, P, decoder, packed, prefiller, prompt, sampled, send_to, work

BLOCK_BYTES = 256


def landed(rig, transfer_id: int, token: int = 7, peer=P):
    """Everything of a transfer in one chunk."""
    rig.hear(peer, m.ChunkPosted(transfer_id, 0, 1))
    rig.hear(peer, m.ChunkLanded(transfer_id, 0))
    return rig.hear(peer, m.Sealed(transfer_id, 1, sampled(token)))


def test_w1_a_fixed_window_bounds_bytes_posted_and_not_landed_and_returns_as_pieces_land():
    rig = prefiller(window_bytes=3 * BLOCK_BYTES)
    send_to(rig, 1, work(prompt(32, 1)))
    rig.step_done()
    assert len(rig.pieces) == 3
    for _ in range(5):
        assert len(the(rig.piece_landed(), Post).pieces) == 1
        assert rig.books()["transfer_bytes_in_flight"] == 3 * BLOCK_BYTES
    rig.land_pieces()
    assert rig.books()["transfer_bytes_in_flight"] == 0


def test_w1_the_receivers_bound_counts_too():
    rig = prefiller()
    asked = work(prompt(16, 1))
    rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, packed(range(4)), 2 * BLOCK_BYTES))
    rig.prefill(1, asked)
    rig.step_done()
    assert len(rig.pieces) == 2


def test_w1_the_receiver_divides_its_bound_among_its_writers():
    rig = decoder(P, P2, window_bytes=1000)
    assert the(rig.decode(1, work(prompt(9)), P2), m.Receive).window_bytes == 500


def test_w1_a_writer_that_comes_later_gets_what_the_others_leave_until_their_transfers_are_over():
    rig = decoder(P, window_bytes=1000)
    assert the(rig.decode(1, work(prompt(9, 1)), P), m.Receive).window_bytes == 1000
    rig.up(P2)
    rig.connect(P2)
    assert the(rig.decode(2, work(prompt(9, 2)), P), m.Receive).window_bytes == 500
    assert the(rig.decode(3, work(prompt(9, 3)), P2), m.Receive).window_bytes == 1  # one piece may always go
    landed(rig, 1)
    assert the(rig.decode(4, work(prompt(9, 4)), P2), m.Receive).window_bytes == 500


def test_w2_blocks_slot_and_growth_are_taken_in_one_turn_before_the_first_chunk():
    rig = decoder()
    granted = rig.state.memory.outstanding_blocks
    out = rig.decode(1, work(prompt(10), max_tokens=8), P)
    assert messages(out, m.Receive) == [m.Receive(1, AttemptId(1, 0), 0, packed([0, 1, 2]), 512 << 20)]
    assert rig.books()["blocks_free"] == 64 - 5  # prompt and seven more tokens
    assert rig.books()["slots_used"] == 1
    assert rig.state.memory.outstanding_blocks == granted - 5


def test_w2_nothing_is_allocated_or_given_back_because_of_the_window():
    rig = decoder(window_bytes=1)
    for number in range(1, 6):
        rig.decode(number, work(prompt(10, number)), P)
    assert rig.books()["blocks_free"] == 64 - 25
    rig = prefiller(window_bytes=1)
    for number in range(1, 6):
        send_to(rig, number, work(prompt(10, number)))
    rig.finish_steps()
    assert len(rig.pieces) == 1
    assert rig.books()["blocks_free"] == 64 - 15
    assert rig.state.counters["preempted"] == 0


def test_w3_decode_steps_go_on_while_every_receive_is_held_back():
    rig = decoder()
    rig.decode(1, work(prompt(10, 1), max_tokens=6), P)
    landed(rig, 1)
    for number in (2, 3, 4):
        rig.decode(number, work(prompt(10, number)), P)
    out = rig.finish_steps()
    assert len(only(out, m.Ended)) == 1
    assert [len(rig.rows(launch.plan)) for launch in only(out, Launch)] == [1, 1, 1]


def test_w5_a_request_larger_than_the_window_goes_piece_by_piece():
    rig = prefiller(window_bytes=1)
    send_to(rig, 1, work(prompt(32, 1)))
    rig.step_done()
    for _ in range(8):
        assert len(rig.pieces) == 1
        rig.piece_landed()
    assert rig.core.quiescent()


def test_w5_a_large_request_makes_progress_under_endless_small_traffic():
    rig = prefiller(window_bytes=1)
    send_to(rig, 1, work(prompt(40, 1)))
    rig.step_done()
    for number in range(2, 12):
        send_to(rig, number, work(prompt(3, number)))
        rig.step_done()
        rig.piece_landed()
    assert AttemptId(1, 0) not in rig.state.groups


def test_w14_nobody_overtakes_while_only_the_window_is_short():
    rig = prefiller(window_bytes=2 * BLOCK_BYTES + BLOCK_BYTES // 2)  # the second's piece would fit
    send_to(rig, 1, work(prompt(16, 1)))
    send_to(rig, 2, work(prompt(2, 2)))
    rig.finish_steps()
    order = []
    while rig.pieces:
        order.append(rig.pieces[0].source_block)
        rig.piece_landed()
    assert order == [0, 1, 2, 3, 4]


def test_w4_chunks_of_the_first_in_order_go_first_whichever_was_computed_first():
    rig = prefiller(window_bytes=BLOCK_BYTES)
    late, early = work(prompt(8, 1)), work(prompt(8, 2))
    for number, asked, cls in ((1, late, 5), (2, early, 0)):
        rig.hear(D, m.Receive(number, AttemptId(number, 0), 0, packed([10 * number, 10 * number + 1]), 1 << 40))
        rig.hear(SCHEDULER, m.Prefill(AttemptId(number, 0), asked, m.Order(cls, 0, number), 2, 60_000))
    rig.finish_steps()
    order = []
    while rig.pieces:
        order.append(rig.pieces[0].destination_block)
        rig.piece_landed()
    assert order == [10, 20, 21, 11]


def test_w6_waits_for_the_window_and_for_blocks_are_counted_under_their_reason():
    rig = prefiller(window_bytes=1)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.step_done()
    for _ in range(3):
        rig.do(Wake())
    assert rig.core.gauges()["wait_transfer_window_total"] == 1  # a chunk's wait counts once, not in every turn


def test_w7_the_window_returns_once_on_landing_failure_abort_peer_loss_and_timeout():
    for ending in ("landed", "failed", "abort", "lost", "timeout"):
        rig = prefiller()
        before = rig.books()
        rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, packed(range(4)), 1 << 40))
        rig.prefill(1, work(prompt(16, 1)), left_ms=1000)
        rig.step_done()
        assert rig.books()["transfer_bytes_in_flight"] == 4 * BLOCK_BYTES
        match ending:
            case "failed":
                rig.do(PieceFailed(rig.pieces.popleft().piece_id))
            case "abort":
                rig.abort(1)
            case "lost":
                rig.down(D)
            case "timeout":
                rig.do(Wake(), after_s=2.0)
        if ending != "landed":
            assert rig.books()["blocks_free"] == 60, ending  # unproven writes keep their blocks
        rig.land_pieces()
        assert rig.books() == before, ending


def test_w7_a_deadline_on_the_receiving_end_frees_nothing_before_the_writers_word():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(10)), P, left_ms=1000)
    rig.hear(P, m.ChunkPosted(1, 0, 512))
    out = rig.do(Wake(), after_s=1.5)
    assert the(out, m.AttemptFailed).reason is Reason.DEADLINE
    assert the(out, m.CloseTransfer) == m.CloseTransfer(1)
    assert rig.books()["blocks_free"] == 64 - 5
    rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert rig.books() == before


def test_w7_a_timeout_says_how_far_the_transfer_came_on_either_end():
    rig = decoder()
    rig.decode(1, work(prompt(16)), P, left_ms=1000)
    for chunk in (0, 1):
        rig.hear(P, m.ChunkPosted(1, chunk, BLOCK_BYTES))
    rig.hear(P, m.ChunkLanded(1, 0))
    failed = the(rig.do(Wake(), after_s=1.5), m.AttemptFailed)
    assert failed == m.AttemptFailed(
        AttemptId(1, 0), Reason.DEADLINE, "1 chunks landed of an unknown number, 1 on their way"
    )
    rig = prefiller(token_budget=8, window_bytes=2 * BLOCK_BYTES)
    rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, packed(range(5)), 1 << 40))
    rig.prefill(1, work(prompt(20, 1)), left_ms=1000)
    rig.step_done()
    rig.piece_landed()
    rig.piece_landed()
    rig.step_done()
    failed = the(rig.do(Wake(), after_s=2.0), m.AttemptFailed)
    assert failed.detail == "1 of 2 chunks landed, to block 4 of 5"


def test_w8_a_receive_that_names_the_wrong_blocks_fails_at_once_and_wedges_nothing():
    rig = prefiller()
    before = rig.books()
    rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, packed([1]), 1 << 40))
    out = rig.prefill(1, work(prompt(16, 1)))
    assert says("router", m.AttemptFailed, reason=Reason.INTERNAL) in out
    assert says("decode", m.TransferClosed, transfer_id=1, reason=Reason.INTERNAL) in out
    rig.finish_steps()
    assert rig.books() == before


def test_w8_a_decode_without_its_pair_is_refused_at_once_and_counted():
    rig = decoder()
    before = rig.books()
    out = rig.decode(1, work(prompt(10)), P2)
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.LINK_BUSY) in out
    assert says("scheduler", m.Ended, id=AttemptId(1, 0)) in out
    assert says("scheduler", m.Credit, num_blocks=5, num_slots=1) in out
    assert rig.core.gauges()["refused_after_placement_total"] == 1
    assert rig.books() == before


def test_w12_a_resumed_attempt_enters_through_the_same_door_with_the_same_words():
    rig = decoder()
    first = rig.decode(1, work(prompt(10)), P)
    rig.abort(1)
    rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    resumed = rig.decode(1, work([*prompt(10), 5, 6], prior=2), P, attempt=1)
    three = rig.decode(2, work(prompt(10, 2), num_choices=3), P)
    for out in (first, resumed, three):
        assert [type(c.message).__name__ for c in only(out, m.Receive)] == ["Receive"]
    assert [len(the(out, m.Receive).block_ids) // 4 for out in (first, resumed, three)] == [3, 3, 3]


def test_kvt_10_four_long_prompts_on_a_small_decode_pool_are_never_half_reserved():
    """What is placed always fits: the pool gives all of a request's blocks at once or is never asked."""
    rig = decoder(num_blocks=12)
    rig.decode(1, work(prompt(20, 1)), P)
    rig.decode(2, work(prompt(10, 2)), P)
    assert rig.books()["blocks_free"] == 0
    landed(rig, 1)
    landed(rig, 2)
    rig.finish_steps()
    assert rig.books()["blocks_free"] == 12


def test_kvt_10_warm_requests_with_one_shared_prefix_leave_the_free_blocks_constant():
    rig = decoder()
    for number in range(1, 101):
        asked = work([*prompt(16), 10_000 + number])
        out = rig.decode(number, asked, P)
        assert the(out, m.Receive).first_block == (4 if number > 1 else 0)
        landed(rig, number)
        rig.finish_steps()
        assert rig.books()["blocks_free"] == 64


def test_h2_steps_are_launched_at_once_however_much_waits_for_the_window():
    rig = prefiller(window_bytes=1, token_budget=8)
    for number in range(1, 5):
        send_to(rig, number, work(prompt(8, number)))
    assert [len(only(rig.step_done(), Launch)) for _ in range(4)] == [1, 1, 0, 0]
    assert like(Post) not in rig.do(Wake())
