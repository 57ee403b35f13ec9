"""A worker process of a run: sends its share and tells the facts in batches, over its standard input and output."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import uvloop

from baton.core.errors import ServingError
from baton.core.metrics.facts import Phase, RequestFacts
from baton.services.loadgen.target import BodyOf
from baton.services.loadgen.worker_messages import (
    TO_WORKER,
    Batch,
    Begin,
    Broken,
    FromWorker,
    PhaseOver,
    Prepared,
    StartPhase,
    Stop,
    frame_of,
    read_frame,
)
from baton.services.loadgen.worker_sender import Sender

BATCH_S = 0.1  #: facts wait at most so long to be told
YOUNG_OBJECTS = 50_000  #: new objects between two looks for garbage, each of which delays what is due


class Outbox:
    """Batches facts; what the run does not read yet is kept, since no fact may be lost."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._facts: list[RequestFacts] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, facts: RequestFacts) -> None:
        self._facts.append(facts)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._facts:
            self._write(frame_of(Batch(tuple(self._facts))))
            self._facts = []

    def tell(self, message: FromWorker) -> None:
        """After all facts that came before it."""
        self.flush()
        self._write(frame_of(message))


class OutputPipe(asyncio.BaseProtocol):
    """The writing end; `is_gone` once all was written, or nobody reads any more."""

    def __init__(self) -> None:
        self.is_gone = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone.set()


async def serve(reader: asyncio.StreamReader, outbox: Outbox) -> None:
    """From Begin until Stop, or until the run is gone."""
    frame = await read_frame(reader)
    begin = TO_WORKER.decode(frame) if frame is not None else None
    if not isinstance(begin, Begin):
        return
    try:
        await serve_share(begin, reader, outbox)
    except (ServingError, OSError, ImportError) as error:
        outbox.tell(Broken(f"{type(error).__name__}: {error}"))


async def serve_share(begin: Begin, reader: asyncio.StreamReader, outbox: Outbox) -> None:
    """Raises ServingError, OSError and ImportError before anything was sent. What goes wrong afterwards ends the run: a
    request whose body cannot be made would otherwise be waited for without end."""
    origin_s = begin.origin_s
    asyncio.get_running_loop().set_exception_handler(lambda _, context: outbox.tell(Broken(cause_of(context))))
    sender = Sender(begin, load_maker(begin), lambda: time.monotonic() - origin_s, outbox.add)
    await sender.prepare()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    outbox.tell(Prepared())
    phase: asyncio.Task[None] | None = None
    while (frame := await read_frame(reader)) is not None:
        message = TO_WORKER.decode(frame)
        if isinstance(message, StartPhase):
            # As a callback, so that what it raises is told at once; the task's first step comes after it.
            asyncio.get_running_loop().call_soon(sender.start, message.phase, message.start_s)
            phase = asyncio.create_task(tell_over(sender, message.phase, outbox))
        elif isinstance(message, Stop):
            sender.stop(message.detail)
            break
    if phase is not None:
        phase.cancel()
    await sender.close()
    outbox.flush()


async def tell_over(sender: Sender, phase: Phase, outbox: Outbox) -> None:
    await sender.phase_over.wait()
    outbox.tell(PhaseOver(phase))


def load_maker(begin: Begin) -> BodyOf:
    module, _, name = begin.maker.partition(":")
    body_of: BodyOf = getattr(importlib.import_module(module), name)(**begin.maker_settings)
    return body_of


def cause_of(context: dict[str, Any]) -> str:
    """Of what a callback raised."""
    error = context.get("exception")
    return f"{type(error).__name__}: {error}" if error is not None else str(context["message"])


def allow_files() -> None:
    """As many open sockets as the system lets this user have: each request in flight is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def main() -> None:
    """Standard output is the run's; what anything prints goes to standard error."""
    loop = asyncio.get_running_loop()
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, pipe = await loop.connect_write_pipe(OutputPipe, output)
    await serve(reader, Outbox(transport.write))
    transport.close()
    await pipe.is_gone.wait()


if __name__ == "__main__":
    allow_files()
    uvloop.run(main())
