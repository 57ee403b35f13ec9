"""The writing end of a hand-off: chunks go first, and nothing that may not be posted holds anything else back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.events import Note, Several
from baton.core.executor.events import Launch, PieceFailed, PieceLanded, Post
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import (
    D2,
    ROUTER,
    SCHEDULER,
    D,
    P,
    decoder,
    packed,
    prefiller,
    prompt,
    sampled,
    send_to,
    work,
)

BLOCK_BYTES = 256


def test_h1_a_ready_piece_is_posted_before_the_next_step_is_launched():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.prefill(2, work(prompt(8, 2)))
    rig.prefill(3, work(prompt(8, 3)))
    out = rig.step_done()
    assert only(out, m.Sealed, m.ChunkPosted, Post, Launch) == [
        says("decode", m.Sealed, transfer_id=1, num_chunks=1),
        says("decode", m.ChunkPosted, transfer_id=1, chunk=0, num_bytes=2 * BLOCK_BYTES),
        like(Post),
        like(Launch),
    ]


def test_h2_a_chunk_without_a_receiver_does_not_hold_prefill_back():
    rig = prefiller(token_budget=8)
    rig.prefill(1, work(prompt(8, 1)))
    rig.prefill(2, work(prompt(8, 2)))
    rig.prefill(3, work(prompt(8, 3)))
    out = rig.step_done()
    assert only(out, Post, Launch) == [like(Launch)]
    assert rig.sequence_of(1).group.first_tokens


def test_h2_a_chunk_behind_a_full_window_does_not_hold_prefill_back():
    rig = prefiller(token_budget=8, window_bytes=BLOCK_BYTES)
    for number in (1, 2, 3, 4):
        send_to(rig, number, work(prompt(8, number)))
    assert len(the(rig.step_done(), Post).pieces) == 1
    out = rig.step_done()
    assert only(out, Post, Launch) == [like(Launch)]


def test_h5_several_chunks_of_one_request_go_out_in_one_turn():
    rig = prefiller(token_budget=8)
    rig.prefill(1, work(prompt(22, 1)))
    rig.finish_steps()
    blocks = b"".join(index.to_bytes(4, "little") for index in range(100, 106))
    out = rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, blocks, 1 << 40))
    assert len(the(out, Post).pieces) == 6


def test_h5_chunks_that_waited_for_the_window_go_out_up_to_the_limit_in_one_turn():
    rig = prefiller(token_budget=4, piece_bytes=4 * BLOCK_BYTES, window_bytes=4 * BLOCK_BYTES)
    send_to(rig, 1, work(prompt(16, 1)))
    send_to(rig, 2, work(prompt(16, 2)))
    rig.finish_steps()
    assert len(rig.pieces) == 4
    out = rig.do(Several(tuple(PieceLanded(rig.pieces.popleft().piece_id) for _ in range(2))))
    assert [(message.transfer_id, message.chunk) for message in messages(out, m.ChunkPosted)] == [(2, 0), (2, 1)]


def test_h6_with_launched_steps_unanswered_chunks_go_completions_are_consumed_and_aborts_take_effect():
    rig = prefiller(token_budget=8, window_bytes=BLOCK_BYTES)
    send_to(rig, 1, work(prompt(8, 1)))
    send_to(rig, 2, work(prompt(8, 2)))
    send_to(rig, 3, work(prompt(8, 3)))
    rig.step_done()
    assert len(rig.steps) == 2  # from here on the device answers nothing
    out = rig.piece_landed()
    assert only(out, Post) == [like(Post)]
    assert [c for c in rig.piece_landed() if not isinstance(c, Note)] == [
        says("decode", m.ChunkLanded, transfer_id=1, chunk=0),
        says("scheduler", m.Ended, id=AttemptId(1, 0)),
        says("scheduler", m.Credit, num_blocks=2, num_slots=1),
    ]
    assert AttemptId(3, 0) in rig.state.groups
    out = rig.abort(3)
    assert AttemptId(3, 0) not in rig.state.groups
    assert the(out, m.TransferClosed) == m.TransferClosed(3, Reason.ABORTED)
    assert len(rig.steps) == 2


def test_h6_no_more_than_two_steps_are_with_the_device():
    rig = prefiller(token_budget=8)
    for number in range(1, 8):
        rig.prefill(number, work(prompt(16, number)))
        assert len(rig.steps) == min(2, 2 * number)
    rig = prefiller(token_budget=8, num_queued_steps=1)
    rig.prefill(1, work(prompt(16, 1)))
    assert len(rig.steps) == 1


def test_parked_tokens_hold_back_no_prompt_for_which_a_decode_executor_holds_blocks():
    rig = prefiller(parked_tokens=8, token_budget=8)
    rig.prefill(1, work(prompt(8, 1)))
    rig.step_done()
    rig.prefill(2, work(prompt(8, 2)))
    rig.prefill(3, work(prompt(8, 3)))
    assert not rig.steps
    rig.hear(D, m.Receive(3, AttemptId(3, 0), 0, packed([1, 2]), 1 << 40))
    assert [item.num_tokens for plan in rig.steps for item in rig.rows(plan)] == [8]
    rig.step_done()
    assert not rig.steps  # 2 still waits


def test_a_decode_executor_is_asked_for_once_when_the_end_is_within_the_lead():
    rig = prefiller(token_budget=8, num_queued_steps=1, handoff_lead_steps=1.0)
    asked = [bool(messages(rig.prefill(1, work(prompt(32, 1))), m.Due))]
    asked += [bool(messages(rig.step_done(), m.Due)) for _ in range(4)]
    assert asked == [False, False, True, False, False]  # the third of four steps is launched: one is left
    rig.down(SCHEDULER)
    assert messages(rig.up(SCHEDULER), m.Due) == [m.Due(AttemptId(1, 0))]  # and again in each new session


def test_a_decode_executor_that_asks_by_itself_is_not_asked_for():
    rig = prefiller()
    assert not messages(send_to(rig, 1, work(prompt(10, 1))), m.Due)


def test_a_prompt_that_was_computed_without_a_receiver_goes_out_whole_when_one_asks():
    rig = prefiller()
    assert says("scheduler", m.Due, id=AttemptId(1, 0)) in rig.prefill(1, work(prompt(10, 1)))
    rig.step_done()
    assert not rig.pieces
    out = rig.hear(D, m.Receive(1, AttemptId(1, 0), 1, packed([4, 5]), 1 << 40))
    assert [(p.destination_block, p.end_slot) for p in the(out, Post).pieces] == [(4, 4), (5, 2)]
    assert the(out, m.Sealed).num_chunks == 1


def test_h3_an_abort_takes_effect_in_its_own_turn_while_prefill_is_kept_back():
    rig = prefiller(parked_tokens=8, token_budget=8)
    rig.prefill(1, work(prompt(8, 1)))
    rig.step_done()
    rig.prefill(2, work(prompt(8, 2)))
    assert not rig.steps  # as many computed tokens wait for their transfer as may
    out = rig.abort(2)
    assert says("scheduler", m.Ended, id=AttemptId(2, 0)) in out
    assert len(rig.state.queue) == 0
    assert only(rig.abort(1), m.Credit) == [says("scheduler", m.Credit, num_blocks=2, num_slots=1)]


def test_parked_tokens_hold_new_prompts_back_until_a_transfer_ends():
    rig = prefiller(parked_tokens=8, token_budget=8)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.step_done()
    rig.prefill(2, work(prompt(8, 2)))
    assert not rig.steps
    rig.piece_landed()
    assert not rig.steps
    assert only(rig.piece_landed(), Launch) == [like(Launch)]


@given(st.data())
def test_h4_bytes_in_flight_stay_within_the_limits_of_each_pair_and_of_all(data):
    """Whatever lands, fails and is aborted in whatever order; one piece of each pair may always go."""
    window, total = data.draw(st.integers(1, 4)) * 128, data.draw(st.integers(1, 6)) * 128
    piece = data.draw(st.sampled_from([16, 48, 64, 128]))
    rig = prefiller(D, D2, window_bytes=window, total_window_bytes=total, piece_bytes=piece)
    in_flight = {"decode": 0, "decode2": 0}
    size = {}

    def check() -> None:
        for one in rig.pieces:
            size[one.piece_id] = (one.end_plane - one.first_plane) * (one.end_slot - one.first_slot) * 16
        for name in in_flight:
            mine = [size[one.piece_id] for one in rig.pieces if one.peer == name]
            assert sum(mine) <= window or len(mine) == 1
            assert all(num_bytes <= piece for num_bytes in mine)
        assert sum(size[one.piece_id] for one in rig.pieces) <= total or len(rig.pieces) == 1

    for number in range(1, data.draw(st.integers(1, 5)) + 1):
        send_to(rig, number, work(prompt(data.draw(st.integers(1, 20)), number)), data.draw(st.sampled_from([D, D2])))
        check()
    while rig.steps or rig.pieces:
        moves = ["step"] * bool(rig.steps) + ["landed", "failed", "abort"] * bool(rig.pieces)
        match data.draw(st.sampled_from(moves)):
            case "step":
                rig.step_done()
            case "landed":
                rig.piece_landed()
            case "failed":
                rig.do(PieceFailed(rig.pieces.popleft().piece_id))
            case "abort":
                rig.abort(data.draw(st.integers(1, 5)))
        check()
    assert rig.core.quiescent()
    assert rig.books()["blocks_free"] == 64


def test_h4_no_piece_is_larger_than_the_piece_size_whatever_the_block():
    rig = prefiller(piece_bytes=48, window="fixed")
    send_to(rig, 1, work(prompt(10, 1)))
    rig.step_done()
    covered = set()
    for piece in rig.pieces:
        assert (piece.end_slot - piece.first_slot) * (piece.end_plane - piece.first_plane) * 16 <= 48
        for slot in range(piece.first_slot, piece.end_slot):
            for plane in range(piece.first_plane, piece.end_plane):
                assert (piece.source_block, slot, plane) not in covered
                covered.add((piece.source_block, slot, plane))
    assert len(covered) == 10 * 4


def test_h7_an_abort_drops_unsent_pieces_and_waits_for_sent_ones():
    rig = prefiller(window_bytes=BLOCK_BYTES)
    before = rig.books()
    send_to(rig, 1, work(prompt(12, 1)))
    rig.step_done()
    assert len(rig.pieces) == 1
    out = rig.abort(1)
    assert only(out, m.TransferClosed, Post) == []
    assert rig.books()["blocks_free"] == 61  # the piece that was sent may still read them
    assert rig.piece_landed() == [
        says("decode", m.TransferClosed, transfer_id=1, reason=Reason.ABORTED),
        says("scheduler", m.Credit, num_blocks=3, num_slots=1),
    ]
    assert not rig.pieces
    assert rig.books() == before


def test_h7_a_piece_that_is_reported_twice_gives_nothing_back_twice():
    rig = prefiller(window_bytes=BLOCK_BYTES)
    before = rig.books()
    send_to(rig, 1, work(prompt(4, 1)))
    rig.step_done()
    piece = rig.pieces[0]
    rig.piece_landed()
    assert rig.do(PieceLanded(piece.piece_id)) == []
    assert rig.do(PieceFailed(piece.piece_id)) == []
    assert rig.books() == before


def test_h8_chunks_go_out_as_they_are_computed_so_that_only_the_last_is_left_at_the_end():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(22, 1)))
    posted = [rig.step_done() for _ in range(3)]
    assert [the(out, m.ChunkPosted).num_bytes for out in posted] == [512, 512, 256 + 128]
    assert [len(only(out, m.Sealed)) for out in posted] == [0, 0, 1]


def test_h8_a_chunk_ends_at_a_block_until_the_prompt_ends():
    rig = prefiller(token_budget=6)
    send_to(rig, 1, work(prompt(14, 1)))
    sizes = [[message.num_bytes for message in messages(rig.step_done(), m.ChunkPosted)] for _ in range(3)]
    assert sizes == [[256], [512], [128]]


def test_h12_a_stopped_decode_executor_holds_back_nothing_for_another():
    rig = prefiller(D, D2, token_budget=8, window_bytes=BLOCK_BYTES)
    send_to(rig, 1, work(prompt(8, 1)), D)
    send_to(rig, 2, work(prompt(8, 2)), D)
    rig.step_done()
    rig.step_done()
    stuck = rig.pieces.popleft()
    assert stuck.peer == "decode"
    assert not rig.pieces  # nothing lands at D any more
    send_to(rig, 3, work(prompt(8, 3)), D2)
    assert only(rig.step_done(), Post) == [like(Post)]
    out = rig.land_pieces()
    assert says("decode2", m.ChunkLanded, transfer_id=3, chunk=0) in out
    send_to(rig, 4, work(prompt(8, 4)), D)
    assert len(rig.steps) == 1


def test_h12_a_stopped_peer_never_takes_the_whole_total_window():
    rig = prefiller(D, D2, token_budget=8, window_bytes=2 * BLOCK_BYTES, total_window_bytes=2 * BLOCK_BYTES)
    send_to(rig, 1, work(prompt(8, 1)), D)
    rig.step_done()
    rig.pieces.clear()  # D is stopped: its piece never lands
    send_to(rig, 2, work(prompt(8, 2)), D2)
    rig.step_done()
    out = rig.land_pieces()
    assert says("decode2", m.ChunkLanded, transfer_id=2, chunk=0) in out


def test_h16_a_chunk_is_not_sent_again():
    rig = prefiller(window_bytes=2 * BLOCK_BYTES)
    send_to(rig, 1, work(prompt(16, 1)))
    rig.step_done()
    failed, other = rig.pieces
    out = rig.do(PieceFailed(failed.piece_id, "remote error"))
    assert only(out, Post) == []
    assert the(out, m.AttemptFailed).reason is Reason.TRANSFER_FAILED
    assert only(out, m.TransferClosed) == []  # one handle is not proven yet
    out = rig.do(PieceLanded(other.piece_id))
    assert the(out, m.TransferClosed) == m.TransferClosed(1, Reason.TRANSFER_FAILED, is_clean=False)
    assert rig.core.quiescent()


def test_h16_the_last_block_is_sent_slot_exact():
    rig = prefiller()
    send_to(rig, 1, work(prompt(6, 1)))
    rig.step_done()
    assert [(piece.first_slot, piece.end_slot) for piece in rig.pieces] == [(0, 4), (0, 2)]


def test_h16_the_connection_is_made_at_the_handshake_not_at_the_first_chunk():
    rig = prefiller()
    out = send_to(rig, 1, work(prompt(6, 1))) + rig.step_done()
    assert {type(command).__name__ for command in out} <= {"Launch", "Send", "Post"}


@pytest.mark.parametrize("role", [prefiller, decoder])
def test_kvt_04_messages_of_unknown_transfers_are_harmless(role):
    rig = role()
    before = rig.books()
    peer = D if role is prefiller else P
    if role is prefiller:
        assert rig.hear(peer, m.CloseTransfer(99)) == [
            says("decode", m.TransferClosed, transfer_id=99, reason=Reason.ABORTED)
        ]
    else:
        chunks = (m.ChunkPosted(9, 0, 1), m.ChunkLanded(9, 0))
        for late in (*chunks, m.Sealed(9, 1, sampled(1)), m.TransferClosed(9, None)):
            assert rig.hear(peer, late) == []
        assert rig.state.counters["late_transfer_messages"] == 4
    assert rig.hear(ROUTER, m.Stop(AttemptId(5, 0), 0, 1)) == []
    assert rig.hear(ROUTER, m.Abort(AttemptId(5, 0))) == []
    assert rig.books() == before
