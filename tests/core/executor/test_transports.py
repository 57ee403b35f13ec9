"""Connecting to a peer's memory: at the handshake, once for each life of the peer, again after a failure."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.events import Wake
from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    Drive,
    OpenTransport,
    PieceFailed,
    TransportClosed,
    TransportConnected,
    TransportFailed,
    TransportOpened,
)
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import (
    ROUTER,
    SCHEDULER,
    D,
    ExecutorRig,
    P,
    an_executor,
    decoder,
    packed,
    prefiller,
    prompt,
    send_to,
    work,
)

INFO = m.TransportInfo(b"there", 4096, 64)


def test_h16_the_writer_connects_when_both_ends_are_open_whichever_was_first():
    connect = ConnectTransport("decode", 1, b"there", 4096, 64)
    rig = ExecutorRig(Role.PREFILL)
    assert only(rig.up(D), OpenTransport) == [OpenTransport("decode", 1)]
    assert only(rig.hear(D, INFO), ConnectTransport) == []
    out = rig.do(TransportOpened("decode", 1, b"here", 8192))
    assert out == [says("decode", m.TransportInfo, metadata=b"here", base_address=8192), connect]
    assert rig.do(TransportConnected("decode", 1)) == [says("decode", m.TransportProven)]

    rig = ExecutorRig(Role.PREFILL)
    rig.up(D)
    assert only(rig.do(TransportOpened("decode", 1, b"here", 8192)), ConnectTransport) == []
    assert rig.hear(D, INFO) == [connect]
    assert rig.hear(D, INFO) == []


def test_the_receiver_drives_until_the_first_write_has_landed_and_then_says_that_the_pair_is_ready():
    rig = ExecutorRig(Role.DECODE)
    rig.up(SCHEDULER, ROUTER, P)
    out = rig.do(TransportOpened("prefill", 1, b"here", 0))
    assert only(out, Drive) == [Drive("prefill", 1, True)]
    out = rig.hear(P, m.TransportProven())
    assert out == [Drive("prefill", 1, False), says("scheduler", m.PairReady, prefill=P.life)]
    assert rig.hear(P, m.TransportProven()) == []


def test_no_chunk_is_posted_before_the_connection_is_proven():
    rig = ExecutorRig(Role.PREFILL)
    rig.up(SCHEDULER, ROUTER, D)
    send_to(rig, 1, work(prompt(8)))
    rig.step_done()
    assert not rig.pieces
    rig.connect(D)
    assert len(rig.pieces) == 2


def test_kvt_07_a_restarted_receiver_is_connected_again_and_its_old_transport_goes():
    rig = prefiller()
    rig.down(D)
    again = an_executor("decode", Role.DECODE, epoch=2)
    out = rig.up(again)
    assert only(out, OpenTransport, CloseTransport) == [OpenTransport("decode", 2), CloseTransport("decode", 1)]
    rig.do(TransportClosed("decode", 1))
    rig.connect(again)
    send_to(rig, 1, work(prompt(8)), again)
    rig.step_done()
    assert {(piece.peer, piece.peer_epoch) for piece in rig.pieces} == {("decode", 2)}
    rig.land_pieces()
    assert rig.core.quiescent()


def test_kvt_07_the_old_lifes_transport_stays_while_something_of_it_is_in_flight():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8)))
    rig.step_done()
    rig.down(D)
    out = rig.up(an_executor("decode", Role.DECODE, epoch=2))
    assert only(out, CloseTransport) == []
    assert rig.books()["blocks_free"] == 62


def test_kvt_07_a_restarted_writer_pairs_again_while_its_old_life_is_in_quarantine():
    rig = decoder()
    rig.decode(1, work(prompt(8, 1)), P)
    rig.down(P)
    again = an_executor("prefill", Role.PREFILL, epoch=2)
    rig.up(again)
    out = rig.connect(again)
    assert says("scheduler", m.PairReady, prefill=again.life) in out
    assert the(rig.decode(2, work(prompt(8, 2)), again), m.Receive).transfer_id == 2
    assert rig.books()["transfers_quarantined"] == 1


def test_a_failed_transport_is_closed_and_opened_again_after_a_while():
    rig = ExecutorRig(Role.PREFILL)
    rig.up(D)
    out = rig.do(TransportFailed("decode", 1, "no route"))
    assert only(out, CloseTransport) == [CloseTransport("decode", 1)]
    rig.do(TransportClosed("decode", 1))
    assert rig.core.next_wake is not None
    out = rig.do(Wake(), after_s=rig.core.next_wake - rig.now)
    assert only(out, OpenTransport) == [OpenTransport("decode", 1)]


def test_a_failed_transport_waits_for_its_closing_before_it_is_opened_again():
    """The agent of that name is still being closed: a second one would be closed with it."""
    rig = ExecutorRig(Role.PREFILL)
    rig.up(D)
    rig.do(TransportFailed("decode", 1, "no route"))
    out = rig.do(Wake(), after_s=10.0)
    assert only(out, OpenTransport) == []


def test_rtr_04_transfers_with_nothing_in_flight_fail_with_their_transport():
    """Nobody else would tell them: their pieces wait behind the window of a transport that is gone."""
    rig = prefiller(window_bytes=1)
    before = rig.books()
    send_to(rig, 1, work(prompt(4, 1)))
    send_to(rig, 2, work(prompt(4, 2)))
    rig.finish_steps()
    rig.do(PieceFailed(rig.pieces.popleft().piece_id, "the connection broke"))
    rig.pieces.clear()
    out = rig.do(TransportFailed("decode", 1, "the connection broke"))
    assert says("router", m.AttemptFailed, id=AttemptId(2, 0), reason=Reason.TRANSFER_FAILED) in out
    for piece_id in list(rig.state.pieces):
        rig.do(PieceFailed(piece_id, "its agent was closed"))
    assert rig.books() == before


def test_kvt_07_a_receiver_whose_agent_was_made_again_is_connected_again():
    rig = prefiller()
    out = rig.hear(D, m.TransportInfo(b"another agent", 4096, 64))
    assert only(out, CloseTransport) == [CloseTransport("decode", 1)]
    rig.do(TransportClosed("decode", 1))
    assert rig.core.next_wake is not None
    assert rig.core.next_wake <= rig.now
    assert only(rig.do(Wake()), OpenTransport) == [OpenTransport("decode", 1)]
    rig.do(TransportOpened("decode", 1, b"here", 8192))
    out = rig.hear(D, m.TransportInfo(b"another agent", 4096, 64))
    assert out == [ConnectTransport("decode", 1, b"another agent", 4096, 64)]


def test_a_receiver_answers_a_writer_that_introduces_itself_anew():
    rig = decoder()
    out = rig.hear(P, m.TransportInfo(b"another agent", 4096, 64))
    assert only(out, m.PairLost, m.TransportInfo, Drive) == [
        says("scheduler", m.PairLost, prefill=P.life, reason=Reason.LINK_BUSY),
        says("prefill", m.TransportInfo, metadata=b"here"),
        Drive("prefill", 1, True),
    ]
    assert says("scheduler", m.PairReady, prefill=P.life) in rig.hear(P, m.TransportProven())


def test_kvt_02_an_exit_seen_while_a_broken_transport_closes_frees_its_quarantine_with_the_closing():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(8)), P)
    rig.abort(1)
    rig.do(TransportFailed("prefill", 1, "the connection broke"))
    rig.down(P)
    rig.hear(SCHEDULER, m.Exited(P.life))
    assert rig.books()["transfers_quarantined"] == 1
    rig.do(TransportClosed("prefill", 1))
    assert rig.books() == before


def test_kvt_02_an_exit_seen_after_a_broken_transport_closed_frees_its_quarantine_at_once():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(8)), P)
    rig.abort(1)
    rig.do(TransportFailed("prefill", 1, "the connection broke"))
    rig.do(TransportClosed("prefill", 1))
    assert rig.books()["transfers_quarantined"] == 1
    rig.hear(SCHEDULER, m.Exited(P.life))
    assert rig.books() == before


def test_w9_a_reconnect_to_the_same_life_uses_the_transport_that_is_there():
    rig = prefiller()
    rig.down(D)
    out = rig.up(D)
    assert only(out, OpenTransport, ConnectTransport, m.TransportInfo, m.TransportProven) == [
        says("decode", m.TransportInfo, metadata=b"here"),
        says("decode", m.TransportProven),
    ]
    rig = decoder()
    rig.down(P)
    assert only(rig.up(P), OpenTransport) == []
    assert says("scheduler", m.PairReady, prefill=P.life) in rig.hear(P, m.TransportProven())


def test_kvt_03_a_receive_whose_prefill_never_comes_is_forgotten_with_its_transfer():
    rig = prefiller()
    before = rig.books()
    rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, packed([1, 2]), 1 << 40))
    assert rig.books()["receives_early"] == 1
    out = rig.hear(D, m.CloseTransfer(1))
    assert the(out, m.TransferClosed) == m.TransferClosed(1, Reason.ABORTED)
    assert rig.books() == before
    rig.hear(D, m.Receive(2, AttemptId(2, 0), 0, packed([1, 2]), 1 << 40))
    rig.down(D)
    assert rig.books() == before


def test_kvt_03_a_lost_receiver_takes_nothing_along_that_it_has_not_asked_for():
    rig = prefiller()
    before = rig.books()
    rig.prefill(1, work(prompt(8)))
    rig.step_done()
    out = rig.down(D)
    assert not messages(out, m.AttemptFailed)
    rig.abort(1)  # as the scheduler says when the receiver has ended the attempt
    assert rig.books() == before


def test_kvt_01_a_receive_that_comes_after_the_attempt_is_over_is_answered_when_it_is_closed():
    rig = prefiller()
    before = rig.books()
    rig.prefill(1, work(prompt(8)))
    rig.step_done()
    rig.abort(1)
    assert rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, packed([1, 2]), 1 << 40)) == []
    assert says("decode", m.TransferClosed, transfer_id=1) in rig.hear(D, m.CloseTransfer(1))
    assert rig.books() == before


def test_a_second_receive_for_the_same_attempt_is_refused():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8)))
    out = rig.hear(D, m.Receive(2, AttemptId(1, 0), 0, packed([7, 8]), 1 << 40))
    assert out == [says("decode", m.TransferClosed, transfer_id=2, reason=Reason.INTERNAL)]


def test_a_prefill_executor_dials_every_decode_executor_of_the_roster():
    rig = ExecutorRig(Role.PREFILL)
    rig.up(SCHEDULER)
    out = rig.hear(SCHEDULER, m.Roster((D, P, an_executor("u", Role.UNIFIED))))
    assert [command.peer.name for command in out] == ["decode"]
    assert like(type(out[0])) == out[0]


def test_w8_a_receive_over_a_transport_that_is_being_closed_fails_at_once():
    rig = prefiller()
    before = rig.books()
    rig.do(TransportFailed("decode", 1, "no route"))
    out = send_to(rig, 1, work(prompt(8)))
    assert says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.PEER_LOST) in out
    assert the(out, m.TransferClosed) == m.TransferClosed(1, Reason.PEER_LOST)
    rig.finish_steps()
    assert rig.books() == before


def test_w7_pieces_that_are_told_after_their_agent_is_gone_give_the_total_back():
    rig = prefiller()
    before = rig.books()
    send_to(rig, 1, work(prompt(8)))
    rig.step_done()
    rig.hear(SCHEDULER, m.Exited(D.life))
    rig.do(TransportClosed("decode", 1))
    rig.piece_landed()
    rig.abort(1)
    rig.do(PieceFailed(rig.pieces.popleft().piece_id, "its agent was closed"))
    assert rig.books() == before
