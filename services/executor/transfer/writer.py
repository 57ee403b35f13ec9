"""The writing side: pieces in order for each peer, one write of each peer in turn, each write polled to its proof.

Whole blocks that stand behind each other go in one write, as long as that is no larger than a piece may be, and so do
parts of blocks: where pieces are small, a write costs more than its bytes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from baton.core.executor.events import Piece, PieceFailed, PieceLanded, ThreadEvent, TransportConnected
from baton.services.executor.transfer.counters import TransferCounters
from baton.services.executor.transfer.errors import PieceRefused, TransportBroken
from baton.services.executor.transfer.faults import FaultSource, parse_fault
from baton.services.executor.transfer.link import Link, LinkPhase, PeerKey, QueuedPiece
from baton.services.executor.transfer.peer_agent import Write, WriteState
from baton.services.executor.transfer.region import KvRegion, is_whole_block, piece_bytes, piece_fault


class PieceWriter:
    """Belongs to the transfer thread. A broken connection is told to `on_broken`, which takes the link's pieces."""

    def __init__(
        self,
        region: KvRegion,
        counters: TransferCounters,
        post_event: Callable[[ThreadEvent], object],
        on_broken: Callable[[Link, str], None],
        faults: FaultSource | None,
        max_piece_bytes: int,
    ) -> None:
        self._region = region
        self._counters = counters
        self._post_event = post_event
        self._on_broken = on_broken
        self._faults = faults
        self._max_piece_bytes = max_piece_bytes
        self._waiting: deque[Link] = deque()  #: links with queued pieces; the next one to post is first
        self._unproven: dict[PeerKey, Link] = {}  #: links with writes in progress

    @property
    def has_unproven(self) -> bool:
        return bool(self._unproven)

    def next_post_at_s(self) -> float | None:
        """When the next queued piece may be posted; None without one."""
        return min((link.queued[0].due_at_s for link in self._waiting), default=None)

    def enqueue(self, link: Link | None, piece: Piece) -> None:
        """Take a piece; one that may not be posted is reported as failed at once."""
        if link is None or link.agent is None or link.phase is not LinkPhase.CONNECTED:
            self.fail(piece.piece_id, "the transport is not connected")
            return
        fault = piece_fault(piece, self._region, link.agent.remote, self._max_piece_bytes)
        if fault is not None:
            self.fail(piece.piece_id, fault)
            return
        injected = parse_fault(self._faults(piece) if self._faults else None)
        num_bytes = piece_bytes(piece, self._region.layout)
        is_whole = is_whole_block(piece, self._region.layout)
        link.queued.append(QueuedPiece(piece, num_bytes, injected, time.monotonic(), is_whole))
        if len(link.queued) == 1:
            self._waiting.append(link)

    def post_next(self, now_s: float) -> None:
        """Post what goes in one write of the first link whose turn has come, and put that link behind the others."""
        for _ in range(len(self._waiting)):
            link = self._waiting.popleft()
            if link.queued[0].due_at_s > now_s:
                self._waiting.append(link)
                continue
            queued = self._take_write(link.queued)
            if link.queued:
                self._waiting.append(link)
            self._post(link, queued)
            return

    def poll(self) -> None:
        for link in list(self._unproven.values()):
            self._poll_link(link)

    def watch(self, link: Link, write: Write) -> None:
        """Poll a write that was started."""
        link.writes.append(write)
        self._unproven[link.key] = link

    def forget(self, link: Link) -> None:
        """Touch the link's agent no more; its pieces stay with the link until they are reported."""
        self._unproven.pop(link.key, None)
        if link in self._waiting:
            self._waiting.remove(link)

    def fail(self, piece_id: int, detail: str) -> None:
        self._counters.num_failed_pieces += 1
        self._post_event(PieceFailed(piece_id, detail))

    def _take_write(self, queued: deque[QueuedPiece]) -> list[QueuedPiece]:
        """The next piece, with those that may go with it."""
        taken = [queued.popleft()]
        num_left = self._max_piece_bytes - taken[0].num_bytes
        while queued and taken[0].may_go_with(queued[0]) and queued[0].num_bytes <= num_left:
            taken.append(queued.popleft())
            num_left -= taken[-1].num_bytes
        return taken

    def _post(self, link: Link, queued: list[QueuedPiece]) -> None:
        agent = link.connected_agent()
        pieces = [one.piece for one in queued]
        num_bytes = sum([one.num_bytes for one in queued])
        if queued[0].fault.is_failed:
            self.fail(pieces[0].piece_id, "injected")
            return
        try:
            write = agent.prepare(pieces, num_bytes)
        except PieceRefused as error:
            for piece in pieces:
                self.fail(piece.piece_id, str(error))
            return
        self._counters.num_posted_pieces += len(pieces)
        self._counters.num_posted_bytes += num_bytes
        self.watch(link, write)
        detail = None
        try:
            agent.start(write)
        except TransportBroken as error:
            detail = str(error)  # the error refers to the agent, which must be closed without any reference left
        self._counters.post_s += write.post_s
        if detail is not None:
            self._on_broken(link, detail)

    def _poll_link(self, link: Link) -> None:
        """Report what is proven, oldest first: a later write is not proven before an earlier one of its connection."""
        agent = link.connected_agent()
        detail = None
        try:
            while link.writes and agent.poll(link.writes[0]) is WriteState.DONE:
                self._report(link, link.writes.popleft())
        except TransportBroken as error:
            detail = str(error)
        if detail is not None:
            self._on_broken(link, detail)
        elif not link.writes:
            del self._unproven[link.key]

    def _report(self, link: Link, write: Write) -> None:
        if not write.piece_ids:
            link.phase = LinkPhase.CONNECTED
            self._post_event(TransportConnected(*link.key))
            return
        self._counters.num_landed_pieces += len(write.piece_ids)
        self._counters.num_landed_bytes += write.num_bytes
        for piece_id in write.piece_ids:
            self._post_event(PieceLanded(piece_id, write.post_s, write.posted_at))
