"""What the transfer thread keeps for one peer and epoch: its agent, its queue of pieces, its writes not yet proven."""

from __future__ import annotations

import enum
from collections import deque

from baton.core.errors import InvariantViolated
from baton.core.executor.events import CloseTransport, ConnectTransport, Drive, Piece
from baton.services.executor.transfer.faults import NO_FAULT, Fault
from baton.services.executor.transfer.peer_agent import PeerAgent, Write

LinkCommand = ConnectTransport | CloseTransport | Drive
PeerKey = tuple[str, int]  # peer, epoch


class LinkPhase(enum.Enum):
    OPEN = "open"  #: the agent exists: it can be driven, or connected
    CONNECTING = "connecting"  #: the first write is not yet proven
    CONNECTED = "connected"  #: pieces may be posted
    FAILED = "failed"  #: no agent any more; what is posted on it fails


class QueuedPiece:
    """A piece that waits for its turn."""

    __slots__ = ("due_at_s", "fault", "is_whole", "num_bytes", "piece")

    def __init__(self, piece: Piece, num_bytes: int, fault: Fault, now_s: float, is_whole: bool) -> None:
        self.piece = piece
        self.is_whole = is_whole  #: a whole block, which may go with others of its kind in one write; so may parts
        self.num_bytes = num_bytes
        self.fault = fault
        self.due_at_s = now_s + fault.delay_s

    def may_go_with(self, following: QueuedPiece) -> bool:
        """Whether both may be parts of one write."""
        return self.is_whole == following.is_whole and self.fault is following.fault is NO_FAULT


class Link:
    """State of one peer. While `is_in_setup`, its agent belongs to the set-up thread and commands wait in `backlog`."""

    __slots__ = ("agent", "backlog", "is_in_setup", "key", "phase", "queued", "writes")

    def __init__(self, key: PeerKey) -> None:
        self.key = key
        self.phase = LinkPhase.OPEN
        self.agent: PeerAgent | None = None
        self.is_in_setup = False
        self.backlog: deque[LinkCommand] = deque()
        self.queued: deque[QueuedPiece] = deque()  #: in the order of their posts
        self.writes: deque[Write] = deque()  #: posted and not proven, oldest first

    def connected_agent(self) -> PeerAgent:
        """The agent of a link that is neither failed nor in set-up."""
        if self.agent is None or self.is_in_setup:
            raise InvariantViolated(f"the agent of {self.key} was used while it is {self.phase.value}")
        return self.agent

    def take_unfinished(self) -> list[int]:
        """Forget every piece that is queued or not proven and return their ids, oldest first."""
        pieces = [piece_id for write in self.writes for piece_id in write.piece_ids]
        pieces += [queued.piece.piece_id for queued in self.queued]
        self.writes.clear()
        self.queued.clear()
        return pieces
