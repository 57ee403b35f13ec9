"""What a run and its workers say to each other: MessagePack behind a length of four bytes, over pipes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from baton.core.metrics.facts import Failure, Phase, RequestFacts
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import Target

LENGTH_BYTES = 4


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Base of all messages."""


class Begin(Message, frozen=True, tag=1):
    """Run → worker: your share. Nothing is sent yet."""

    target: Target
    requests: tuple[PlannedRequest, ...]  #: sessions are whole
    worker: int
    num_workers: int
    concurrency: int  #: of all workers: of its places this one has each `num_workers`-th; 0: no bound
    ramp_s: float
    origin_s: float  #: the monotonic clock's reading when the run began
    maker: str  #: MODULE:NAME of a function that is called with `maker_settings` and gives a BodyOf
    maker_settings: dict[str, Any]


class StartPhase(Message, frozen=True, tag=2):
    """Run → worker: send this phase's requests, from this time on."""

    phase: Phase
    start_s: float


class Stop(Message, frozen=True, tag=3):
    """Run → worker: cancel what is open and give up the rest; or, when all is over, just end."""

    detail: str = ""


class Prepared(Message, frozen=True, tag=4):
    """Worker → run: connections and first bodies are ready."""


class Batch(Message, frozen=True, tag=5):
    """Worker → run: requests that have ended."""

    facts: tuple[RequestFacts, ...]


class PhaseOver(Message, frozen=True, tag=6):
    """Worker → run: all of my requests of this phase have ended."""

    phase: Phase


class Broken(Message, frozen=True, tag=7):
    """Worker → run: I cannot go on."""

    detail: str


ToWorker = Begin | StartPhase | Stop
FromWorker = Prepared | Batch | PhaseOver | Broken

ENCODER = msgspec.msgpack.Encoder()
TO_WORKER = msgspec.msgpack.Decoder(ToWorker)
FROM_WORKER = msgspec.msgpack.Decoder(FromWorker)


def frame_of(message: ToWorker | FromWorker) -> bytes:
    body = ENCODER.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message's bytes; None: the other side is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def unsent_facts(request: PlannedRequest, worker: int, scheduled_s: float, cause: str, now: float) -> RequestFacts:
    """Of a request that this worker gave up, or of which it told nothing."""
    return RequestFacts(
        index=request.index,
        phase=request.phase,
        session=request.session,
        turn=request.turn,
        worker=worker,
        wanted_output_tokens=request.max_tokens,
        scheduled_s=scheduled_s,
        is_due_by_plan=request.is_due_by_plan,
        done_s=now,
        failure=Failure.UNSENT,
        detail=cause,
    )
