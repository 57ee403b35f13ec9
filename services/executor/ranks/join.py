"""Transport commands for every rank of a group, and one report of what all ranks have said to them.

Each rank moves its own part of a block to the same rank of the peer, over a transport of its own. For the group a thing
has happened when it has on all ranks. A piece has failed when it failed on one, which is told when all have ended it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from baton.core.errors import BadMessage, InvariantViolated
from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    Drive,
    OpenTransport,
    PieceFailed,
    PieceLanded,
    Post,
    ThreadEvent,
    TransportClosed,
    TransportConnected,
    TransportFailed,
    TransportOpened,
)

TransferCommand = OpenTransport | ConnectTransport | CloseTransport | Drive | Post
MAX_RANKS = 64
MAX_METADATA_BYTES = 1 << 16  #: of one rank

Address = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class RankMetadata(msgspec.Struct, frozen=True, array_like=True):
    """How one rank's memory is reached."""

    metadata: Annotated[bytes, msgspec.Meta(max_length=MAX_METADATA_BYTES)]
    base_address: Address


_PACKED = msgspec.msgpack.Decoder(
    Annotated[tuple[RankMetadata, ...], msgspec.Meta(min_length=1, max_length=MAX_RANKS)], strict=True
)


def pack_metadata(ranks: list[TransportOpened]) -> bytes:
    return msgspec.msgpack.encode([RankMetadata(rank.metadata, rank.base_address) for rank in ranks])


def unpack_metadata(packed: bytes, num_ranks: int) -> tuple[RankMetadata, ...]:
    """Raises BadMessage if it is not that of a group of as many ranks."""
    try:
        ranks = _PACKED.decode(packed)
    except msgspec.MsgspecError as error:
        raise BadMessage(f"metadata of no group of ranks: {error}") from error
    if len(ranks) != num_ranks:
        raise BadMessage(f"the peer has {len(ranks)} ranks, this end {num_ranks}")
    return ranks


class _Link:
    """What the ranks have said of one peer and epoch."""

    def __init__(self) -> None:
        self.opened: dict[int, TransportOpened] = {}  #: by rank
        self.connected: set[int] = set()
        self.closed: set[int] = set()
        self.has_failed = False


class _Piece:
    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.failure: str | None = None
        self.post_s = 0.0
        self.posted_at = 0.0


class TransferJoin:
    """Not thread-safe. `split` each command before its ranks have it; then `report` what they say."""

    def __init__(self, num_ranks: int) -> None:
        self._num_ranks = num_ranks
        self._links: dict[tuple[str, int], _Link] = {}
        self._pieces: dict[int, _Piece] = {}

    @property
    def num_unfinished_pieces(self) -> int:
        return len(self._pieces)

    def split(self, command: TransferCommand) -> list[TransferCommand]:
        """The command of each rank. Raises BadMessage for the metadata of a peer that has other ranks."""
        if isinstance(command, Post):
            for piece in command.pieces:
                if piece.piece_id in self._pieces:
                    raise InvariantViolated(f"piece {piece.piece_id} is posted twice")
                self._pieces[piece.piece_id] = _Piece()
        elif not isinstance(command, Drive):
            self._links.setdefault((command.peer, command.peer_epoch), _Link())
        if isinstance(command, ConnectTransport):
            return [
                msgspec.structs.replace(command, metadata=rank.metadata, base_address=rank.base_address)
                for rank in unpack_metadata(command.metadata, self._num_ranks)
            ]
        return [command] * self._num_ranks

    def report(self, rank: int, event: ThreadEvent) -> ThreadEvent | None:
        """What the group says now that this rank has said this; None while others have yet to speak."""
        if isinstance(event, PieceLanded | PieceFailed):
            return self._report_piece(rank, event)
        if not isinstance(event, TransportOpened | TransportConnected | TransportFailed | TransportClosed):
            raise InvariantViolated(f"{type(event).__name__} is no word of a transfer thread")
        link = self._links.get((event.peer, event.peer_epoch))
        if link is None:  # closed without a command, at the end of the process
            return None
        if isinstance(event, TransportClosed):
            return self._report_closed(link, rank, event)
        if link.has_failed:  # told already; what other ranks say of it is of no interest until it is closed
            return None
        if isinstance(event, TransportFailed):
            link.has_failed = True
            return TransportFailed(event.peer, event.peer_epoch, f"rank {rank}: {event.detail}")
        if isinstance(event, TransportConnected):
            link.connected.add(rank)
            return event if len(link.connected) == self._num_ranks else None
        link.opened[rank] = event
        if len(link.opened) < self._num_ranks:
            return None
        opened = [link.opened[rank] for rank in range(self._num_ranks)]
        return msgspec.structs.replace(opened[0], metadata=pack_metadata(opened))

    def _report_closed(self, link: _Link, rank: int, event: TransportClosed) -> TransportClosed | None:
        link.closed.add(rank)
        if len(link.closed) < self._num_ranks:
            return None
        del self._links[event.peer, event.peer_epoch]
        return event

    def _report_piece(self, rank: int, event: PieceLanded | PieceFailed) -> PieceLanded | PieceFailed | None:
        """Its post was called when the last rank called it."""
        piece = self._pieces.get(event.piece_id)
        if piece is None or rank in piece.ended:
            raise InvariantViolated(f"rank {rank} ends piece {event.piece_id}, which it has not")
        piece.ended.add(rank)
        if isinstance(event, PieceFailed):
            piece.failure = piece.failure or f"rank {rank}: {event.detail}"
        else:
            piece.post_s = max(piece.post_s, event.post_s)
            piece.posted_at = max(piece.posted_at, event.posted_at)
        if len(piece.ended) < self._num_ranks:
            return None
        del self._pieces[event.piece_id]
        if piece.failure is not None:
            return PieceFailed(event.piece_id, piece.failure)
        return PieceLanded(event.piece_id, piece.post_s, piece.posted_at)
