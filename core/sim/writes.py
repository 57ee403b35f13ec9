"""Writes under way: agents, posted pieces, the fragments in which their bytes land, and when they land no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from baton.core.executor import events as e
from baton.core.layout import KvLayout
from baton.core.sim.memory import Words
from baton.core.sim.process import Process

if TYPE_CHECKING:
    from baton.core.sim.transport import TransferThread


class Fragment:
    """Part of a piece: these slots in these planes. `words` once the bytes have left the writer's memory."""

    __slots__ = ("op", "planes", "slots", "words")

    def __init__(self, op: WriteOp, slots: tuple[int, int], planes: tuple[int, int]) -> None:
        self.op = op
        self.slots = slots
        self.planes = planes
        self.words: Words | None = None


class WriteOp:
    """One posted piece until it is settled: after that it writes no more, whatever happens."""

    __slots__ = (
        "fails_after", "fragments", "has_left", "is_reported", "is_settled", "landing_life", "num_landed", "piece",
        "posted_at", "receiver", "writer",
    )  # fmt: skip

    def __init__(self, piece: e.Piece, writer: Agent, receiver: Agent) -> None:
        self.piece = piece
        self.writer = writer
        self.receiver = receiver
        self.fragments: list[Fragment] = []
        self.posted_at = 0.0  #: on the writer's clock
        self.num_landed = 0
        self.fails_after: int | None = None  #: fault: the handle goes to ERR after so many fragments
        self.has_left = False  #: what may still land is in the kernel, no longer read from the source
        self.is_reported = False  #: the writer's handle reached DONE or ERR
        self.is_settled = False  #: no byte of it can land any more
        self.landing_life = 0  #: the destination block's use that this write belongs to


class Agent:
    """One end's agent for one life of one peer."""

    def __init__(self, process: Process, peer: str, peer_epoch: int, serial: int) -> None:
        self.process = process
        self.peer = peer
        self.peer_epoch = peer_epoch
        self.metadata = f"{process.identity}#{serial}".encode()
        self.base_address = 4096 * (serial + 1)
        self.is_open = True
        self.is_closing = False  #: a close is under way
        self.is_broken = False  #: writer: a write ended in an error
        self.is_driving = False
        self.inbound: deque[Fragment] = deque()  #: tcp: bytes that wait for this end's progress
        self.is_pumping = False
        self.knocking: list[Callable[[], None]] = []  #: first writes that wait for this end's progress
        self.remote: Agent | None = None  #: writer: the peer's agent, once connected
        self.ops: dict[int, WriteOp] = {}  #: writer: posted and not reported

    @property
    def is_reachable(self) -> bool:
        return self.is_open and self.process.is_alive


class Fabric:
    """What joins the transfer threads of all processes."""

    def __init__(self, layout: KvLayout, kind: str, bytes_per_s: float = 2e5, fragment_s: float = 1e-4) -> None:
        self.layout = layout
        self.kind = kind  #: "cma" or "tcp"
        self.bytes_per_s = bytes_per_s  #: cma: of the copy inside the post
        self.fragment_s = fragment_s  #: tcp: about what a fragment takes to land
        self.threads: dict[tuple[str, int], TransferThread] = {}  #: of every life
        self.agents: dict[bytes, Agent] = {}  #: by metadata, those of dead processes too


def settle(op: WriteOp) -> None:
    """From here on the piece writes nothing."""
    if op.is_settled:
        return
    op.is_settled = True
    source, destination = op.writer.process.memory, op.receiver.process.memory
    assert source is not None
    assert destination is not None
    if not op.has_left:
        source.num_outgoing[op.piece.source_block] -= 1
    destination.num_incoming[op.piece.destination_block] -= 1


def land(fragment: Fragment, fail: Callable[[str, str], None]) -> None:
    """The bytes arrive in the receiver's memory, whatever it does with them by now."""
    op = fragment.op
    source, destination = op.writer.process.memory, op.receiver.process.memory
    assert source is not None
    assert destination is not None
    piece = op.piece
    if destination.lives[piece.destination_block] != op.landing_life:
        fail(
            "proof before reuse",
            f"piece {piece.piece_id} of {op.writer.process.identity} lands on block {piece.destination_block} of"
            f" {op.receiver.process.identity} after that was reused: {destination.story(piece.destination_block)}",
        )
    words = fragment.words
    if words is None:
        words = source.cut(piece.source_block, fragment.slots, fragment.planes)
    writer = f"piece {piece.piece_id} of {op.writer.process.identity}"
    destination.paste(piece.destination_block, fragment.slots, fragment.planes, words, writer)
    op.num_landed += 1
