"""The two ends of a KV transfer and the transport under them, as data: changed by writer, receiver, transports."""

from __future__ import annotations

import enum
from array import array
from collections import deque

from baton.core.errors import Reason
from baton.core.executor.bandwidth import Flight, PairWindow
from baton.core.executor.events import Piece
from baton.core.executor.sequence import SequenceGroup, Transfer, check_transfer
from baton.core.executor.steps import SampledToken
from baton.core.ids import Life
from baton.core.wire.messages import TransportInfo


class _Status:
    """A transfer's status with its story."""

    __slots__ = ("status", "story")

    def __init__(self) -> None:
        self.status = Transfer.OPEN
        self.story = [Transfer.OPEN.name]

    def move(self, new: Transfer) -> None:
        """Raises IllegalTransition for a move that is not in the table."""
        check_transfer(self.status, new, tuple(self.story))
        self.story.append(new.name)
        self.status = new


class Chunk:
    """Blocks that became sendable together: what is unsent of it, and how many of its pieces have not landed."""

    __slots__ = ("has_waited", "is_announced", "num_bytes", "num_left", "number", "unsent")

    def __init__(self, number: int, pieces: list[Piece], num_bytes: int) -> None:
        self.number = number
        self.unsent = deque(pieces)
        self.num_left = len(pieces)
        self.num_bytes = num_bytes
        self.is_announced = False
        self.has_waited = False  #: a window was too short for a piece of it


class Outgoing(_Status):
    """Writing end. Owns the first sequence's blocks until every handle is proven."""

    __slots__ = (
        "chunks",
        "close_reason",
        "destination_ids",
        "early_block",
        "early_planes",
        "first_block",
        "group",
        "in_flight",
        "is_clean",
        "is_given_up",
        "next_block",
        "num_chunks",
        "peer",
        "transfer_id",
        "unsent",
    )

    def __init__(self, transfer_id: int, peer: Life, group: SequenceGroup, first_block: int, ids: bytes) -> None:
        super().__init__()
        self.transfer_id = transfer_id
        self.peer = peer
        self.group = group
        self.first_block = first_block  #: blocks before it lie at the receiver already
        self.destination_ids = array("i", ids)
        self.next_block = first_block  #: blocks [first_block, next_block) are in chunks
        self.early_block = first_block  #: of blocks [next_block, early_block), which a running step completes,
        self.early_planes = 0  #: these leading planes are in chunks
        self.num_chunks = 0
        self.chunks: dict[int, Chunk] = {}  #: not landed
        self.unsent: deque[Chunk] = deque()  #: with pieces to post
        self.in_flight: dict[int, tuple[Chunk, Flight]] = {}  #: by piece id
        self.is_clean = True  #: every handle so far reached DONE
        self.is_given_up = False  #: nothing more is sent; it closes when every handle is proven
        self.close_reason: Reason | None = None  #: why it was given up; None: every choice ended with its first token

    @property
    def progress(self) -> str:
        """How far it has come."""
        num_landed = self.num_chunks - len(self.chunks)
        last_block = self.first_block + len(self.destination_ids)
        return f"{num_landed} of {self.num_chunks} chunks landed, to block {self.next_block} of {last_block}"


class Sharer:
    """Receiving end: an attempt that holds its memory and waits, before its writer hears of it, for what another
    attempt's transfer brings of its prompt."""

    __slots__ = ("carrier", "group", "since", "until", "writer")

    def __init__(self, group: SequenceGroup, writer: Life, carrier: Incoming, since: float, until: float) -> None:
        self.group = group
        self.writer = writer
        self.carrier: Incoming | None = carrier  #: None: it is over, whatever became of it
        self.since = since  #: when it began to wait for this carrier
        self.until = until  #: fixed when it first waits


class Incoming(_Status):
    """Receiving end. Owns the first sequence's blocks until nothing can be written into them any more."""

    __slots__ = (
        "first_tokens",
        "generation",
        "group",
        "hashes",
        "is_writer_over",
        "landed",
        "num_blocks",
        "num_chunks",
        "peer",
        "posted",
        "sharers",
        "transfer_id",
        "window_bytes",
    )

    def __init__(
        self,
        transfer_id: int,
        peer: Life,
        generation: int,
        group: SequenceGroup,
        num_blocks: int,
        hashes: bytes,
        window_bytes: int,
    ) -> None:
        super().__init__()
        self.transfer_id = transfer_id
        self.peer = peer
        self.generation = generation  #: of this end's agent that the writes come through
        self.is_writer_over = False  #: the writer posts no more, but what it posted may land until that agent is closed
        self.group = group
        self.num_blocks = num_blocks  #: blocks that the writer may touch
        self.hashes = hashes  #: 16 bytes for each full block of them, if others may wait for these
        self.window_bytes = window_bytes  #: what its writer was told that it may have on its way, of all its transfers
        self.sharers: list[Sharer] = []  #: who waits for some of them, those that have ended included
        self.posted: set[int] = set()
        self.landed: set[int] = set()
        self.num_chunks: int | None = None
        self.first_tokens: tuple[SampledToken, ...] = ()

    @property
    def progress(self) -> str:
        """How far it has come."""
        total = "of an unknown number" if self.num_chunks is None else f"of {self.num_chunks}"
        return f"{len(self.landed)} chunks landed {total}, {len(self.posted - self.landed)} on their way"

    @property
    def is_moving(self) -> bool:
        """Whether writes may be under way, so that this end must drive the transport."""
        return self.status is Transfer.QUARANTINED or len(self.posted) > len(self.landed)


class Link(enum.IntEnum):
    """How far this end's transport to one peer is."""

    OPENING = 0  #: OpenTransport was commanded
    OPEN = 1  #: the agent exists; the peer was or will be told how to reach it
    CONNECTING = 2  #: writer: the first write is under way
    READY = 3  #: the first write has landed
    CLOSING = 4  #: CloseTransport was commanded


class Transport:
    """The transport to one life of a peer. Made at the handshake, closed when that life is over."""

    __slots__ = (
        "base_address",
        "generation",
        "in_flight",
        "is_closed",
        "is_driven",
        "is_paired",
        "link",
        "metadata",
        "peer_info",
        "retry_at",
        "sending",
        "window",
        "window_bytes",
    )

    def __init__(self, generation: int, piece_bytes: int) -> None:
        self.generation = generation  #: counts the agents of this process
        self.link = Link.OPENING
        self.metadata = b""
        self.base_address = 0
        self.peer_info: TransportInfo | None = None  #: writer: how the peer is reached, as it last said
        self.is_closed = False  #: its agent is gone and `retry_at` has not come yet
        self.is_driven = False
        self.is_paired = False  #: receiver: the scheduler was told that the pair is ready
        self.retry_at: float | None = None  #: when a failed one is tried again
        self.window = PairWindow(piece_bytes)  #: writer: what its pieces show that it needs
        self.window_bytes = 1 << 62  #: writer: the receiver's bound for this pair
        self.in_flight = 0  #: writer: bytes posted and not landed
        self.sending: list[Outgoing] = []  #: writer: open transfers in their groups' order
