"""W13: what the ranks of a group say of their transfers, joined to what one executor says."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import BadMessage, InvariantViolated
from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    Drive,
    OpenTransport,
    Piece,
    PieceFailed,
    PieceLanded,
    Post,
    TransportClosed,
    TransportConnected,
    TransportFailed,
    TransportOpened,
)
from baton.services.executor.ranks.join import TransferJoin, pack_metadata

PEER = ("decode", 7)
PIECE = Piece(1, *PEER, 3, 4, 0, 16, 0, 8)


def opened(rank: int) -> TransportOpened:
    return TransportOpened(*PEER, f"agent {rank}".encode(), 1000 + rank)


def opened_join(num_ranks: int = 2) -> TransferJoin:
    join = TransferJoin(num_ranks)
    join.split(OpenTransport(*PEER))
    for rank in range(num_ranks):
        join.report(rank, opened(rank))
    return join


def test_w13_each_rank_connects_to_the_same_rank_of_the_peer() -> None:
    join = TransferJoin(2)
    assert join.split(OpenTransport(*PEER)) == [OpenTransport(*PEER)] * 2
    assert join.report(1, opened(1)) is None
    whole = join.report(0, opened(0))
    assert isinstance(whole, TransportOpened)
    assert (whole.metadata, whole.base_address) == (pack_metadata([opened(0), opened(1)]), 1000)
    assert join.split(ConnectTransport(*PEER, whole.metadata, whole.base_address, 64)) == [
        ConnectTransport(*PEER, b"agent 0", 1000, 64),
        ConnectTransport(*PEER, b"agent 1", 1001, 64),
    ]
    assert join.report(0, TransportConnected(*PEER)) is None
    assert join.report(1, TransportConnected(*PEER)) == TransportConnected(*PEER)


@pytest.mark.parametrize("num_theirs", [1, 3])
def test_w13_a_peer_of_another_number_of_ranks_is_refused(num_theirs: int) -> None:
    packed = pack_metadata([opened(rank) for rank in range(num_theirs)])
    with pytest.raises(BadMessage, match=f"the peer has {num_theirs} ranks, this end 2"):
        opened_join().split(ConnectTransport(*PEER, packed, 1000, 64))


@given(st.binary(max_size=40))
def test_metadata_of_one_executor_without_ranks_is_refused(packed: bytes) -> None:
    with pytest.raises(BadMessage):
        opened_join(3).split(ConnectTransport(*PEER, packed, 1000, 64))


def test_w13_a_piece_has_landed_when_all_ranks_say_so_and_was_posted_by_the_last() -> None:
    join = opened_join()
    assert join.split(Post((PIECE,))) == [Post((PIECE,))] * 2
    assert join.report(1, PieceLanded(1, 0.5, 20.0)) is None
    assert join.report(0, PieceLanded(1, 0.75, 10.0)) == PieceLanded(1, 0.75, 20.0)
    assert join.num_unfinished_pieces == 0


@pytest.mark.parametrize("failing", [0, 1])
def test_w13_a_piece_that_fails_on_one_rank_has_failed_when_all_have_ended_it(failing: int) -> None:
    join = opened_join()
    join.split(Post((PIECE,)))
    assert join.report(failing, PieceFailed(1, "broken")) is None
    assert join.report(1 - failing, PieceLanded(1, 0.5, 20.0)) == PieceFailed(1, f"rank {failing}: broken")


def test_a_piece_is_ended_once_by_each_rank() -> None:
    join = opened_join()
    join.split(Post((PIECE,)))
    join.report(1, PieceLanded(1))
    with pytest.raises(InvariantViolated):
        join.report(1, PieceLanded(1))


def test_a_transport_that_fails_on_one_rank_fails_once_and_is_closed_when_all_have_closed_it() -> None:
    join = TransferJoin(3)
    join.split(OpenTransport(*PEER))
    join.report(0, opened(0))
    assert join.report(2, TransportFailed(*PEER, "no")) == TransportFailed(*PEER, "rank 2: no")
    assert join.report(1, TransportFailed(*PEER, "nor here")) is None
    assert join.report(1, opened(1)) is None
    join.split(CloseTransport(*PEER))
    assert [join.report(rank, TransportClosed(*PEER)) for rank in (2, 0)] == [None, None]
    assert join.report(1, TransportClosed(*PEER)) == TransportClosed(*PEER)
    join.split(OpenTransport(*PEER))
    assert [join.report(rank, opened(rank)) for rank in (0, 1)] == [None, None]
    assert join.report(2, opened(2)) is not None


def test_closing_what_was_never_open_is_closed_by_all() -> None:
    join = TransferJoin(2)
    join.split(CloseTransport(*PEER))
    assert join.report(0, TransportClosed(*PEER)) is None
    assert join.report(1, TransportClosed(*PEER)) == TransportClosed(*PEER)


def test_every_rank_drives() -> None:
    assert TransferJoin(2).split(Drive(*PEER, True)) == [Drive(*PEER, True)] * 2


@given(st.integers(2, 4), st.integers(1, 5), st.data())
def test_w13_every_piece_is_told_once_and_never_before_its_last_rank(
    num_ranks: int, num_pieces: int, data: st.DataObject
) -> None:
    join = opened_join(num_ranks)
    pieces = [msgspec.structs.replace(PIECE, piece_id=number) for number in range(num_pieces)]
    join.split(Post(tuple(pieces)))
    words = [(rank, number, data.draw(st.booleans())) for rank in range(num_ranks) for number in range(num_pieces)]
    told: dict[int, bool] = {}
    left = {number: num_ranks for number in range(num_pieces)}
    for rank, number, has_landed in data.draw(st.permutations(words)):
        event = join.report(rank, PieceLanded(number) if has_landed else PieceFailed(number))
        left[number] -= 1
        assert (event is None) == (left[number] > 0)
        if event is not None:
            assert number not in told
            told[number] = isinstance(event, PieceLanded)
    for number in range(num_pieces):
        assert told[number] == all(landed for _, other, landed in words if other == number)
    assert join.num_unfinished_pieces == 0
