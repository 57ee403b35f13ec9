"""Events and commands of the executor's machine. What a session delivers is in `baton.core.events`."""

from __future__ import annotations

import msgspec

from baton.core.executor.steps import StepPlan, StepResult


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """One write of the transport: some planes and slots of one block, at most one piece size of bytes."""

    piece_id: int  #: unique in the executor's life
    peer: str
    peer_epoch: int
    source_block: int
    destination_block: int
    first_slot: int  #: slots [first_slot, end_slot)
    end_slot: int
    first_plane: int  #: planes [first_plane, end_plane), counted over all KV layers: `KvLayout.runs`
    end_plane: int


# ---- events: from the compute thread


class StepDone(msgspec.Struct, frozen=True, tag=1):
    """The step's completion is proven and this is its result."""

    result: StepResult


class StepFailed(msgspec.Struct, frozen=True, tag=2):
    """The step gave no usable result. `proven`: its work has ended; otherwise nothing may be freed (exit at once)."""

    step_id: int
    stage: str  #: launch, create, record, wait, collect, …
    proven: bool
    detail: str = ""


# ---- events: from the transfer thread


class TransportOpened(msgspec.Struct, frozen=True, tag=3):
    """This end's agent for that peer exists; `metadata` lets the peer reach it."""

    peer: str
    peer_epoch: int
    metadata: bytes
    base_address: int


class TransportConnected(msgspec.Struct, frozen=True, tag=4):
    """Writer: the first write to the peer reached DONE."""

    peer: str
    peer_epoch: int


class TransportFailed(msgspec.Struct, frozen=True, tag=5):
    """Opening or connecting failed; pieces posted on it (if any) are reported on their own."""

    peer: str
    peer_epoch: int
    detail: str


class TransportClosed(msgspec.Struct, frozen=True, tag=6):
    """The agent for that peer is gone: nothing of it can read or write this process's memory any more."""

    peer: str
    peer_epoch: int


class PieceLanded(msgspec.Struct, frozen=True, tag=7):
    """The handle of the piece reached DONE. `posted_at`: when its post was called, on the clock of `now`."""

    piece_id: int
    post_s: float = 0.0  #: how long the post itself took: some transports copy inside it
    posted_at: float = 0.0


class PieceFailed(msgspec.Struct, frozen=True, tag=8):
    """The handle of the piece reached ERR, or its post raised, or its agent was closed: it posts no more.

    Over TCP, bytes that are under way may still land until the receiver closes its own agent for this writer.
    """

    piece_id: int
    detail: str = ""


class StepAdvanced(msgspec.Struct, frozen=True, tag=10):
    """Compute thread: of all tokens that the lane's running step computes, KV is written in planes [0, num_planes),
    counted over all KV layers; the step has not ended. In order, and never a must: a device may say nothing."""

    step_id: int
    num_planes: int


class Drain(msgspec.Struct, frozen=True, tag=9):
    """Operator: finish what runs, take nothing new."""


ThreadEvent = (
    StepDone
    | StepFailed
    | StepAdvanced
    | TransportOpened
    | TransportConnected
    | TransportFailed
    | TransportClosed
    | PieceLanded
    | PieceFailed
)


ExecutorEvent = ThreadEvent | Drain


# ---- commands


class Launch(msgspec.Struct, frozen=True, tag=20):
    """Compute thread of the plan's lane: launch this step. At most two are with it at once."""

    plan: StepPlan


class OpenTransport(msgspec.Struct, frozen=True, tag=21):
    """Transfer thread: make an agent for this peer (one agent for each peer, so that closing it touches no other)."""

    peer: str
    peer_epoch: int


class ConnectTransport(msgspec.Struct, frozen=True, tag=22):
    """Transfer thread of the writer: connect to the peer's memory and make a first write of nothing that matters."""

    peer: str
    peer_epoch: int
    metadata: bytes
    base_address: int
    num_blocks: int


class CloseTransport(msgspec.Struct, frozen=True, tag=23):
    """Transfer thread: end the agent for this peer; its open pieces are reported as failed first."""

    peer: str
    peer_epoch: int


class Drive(msgspec.Struct, frozen=True, tag=24):
    """Transfer thread of the receiver: make progress for this peer (on), or rest (off)."""

    peer: str
    peer_epoch: int
    on: bool


class Post(msgspec.Struct, frozen=True, tag=25):
    """Transfer thread of the writer: post these pieces in order, poll each to DONE or ERR."""

    pieces: tuple[Piece, ...]


class Exit(msgspec.Struct, frozen=True, tag=26):
    """End the process at once, without freeing anything: a completion could not be proven."""

    code: int
    detail: str


ExecutorCommand = Launch | OpenTransport | ConnectTransport | CloseTransport | Drive | Post | Exit

EXIT_UNPROVEN = 70  #: a completion could not be proven
EXIT_STEP_FAILED = 71  #: a proven step gave no usable result: requests were failed, the process stops
