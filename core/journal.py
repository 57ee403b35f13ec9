"""A node's life as a stream: who it was, then every event with its time and all commands that it answered with.

The stream is MessagePack: one header, then `[now, event, commands]` for each turn, where event and commands are encoded
structs as binary. The order of the inbox is a node's only nondeterminism, so a fresh node that is fed the events
answers with the same commands, byte for byte. A journal holds prompts and answers: keep it like them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgpack
import msgspec

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.errors import ServingError
from baton.core.events import ConnectLink, DropLink, Several, Wake
from baton.core.executor.events import ExecutorEvent
from baton.core.ids import Peer
from baton.core.layout import KvLayout
from baton.core.router.events import RouterEvent
from baton.core.session.node import FrameArrived, LinkFull, LinkGone, Node

FORMAT_VERSION = 2
MAX_RECORD_BYTES = 1 << 28

NodeEvent = Wake | ConnectLink | DropLink | FrameArrived | LinkFull | LinkGone | ExecutorEvent | RouterEvent


class SeveralEvents(msgspec.Struct, frozen=True, tag=104):
    """`Several` as a journal's reader sees it: typed."""

    events: tuple[NodeEvent, ...]


class BadJournal(ServingError):
    """The bytes are no journal of this format."""


class JournalHeader(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What is needed to make the node again, but for secrets: an executor also needs its deployment's hash key."""

    version: int = FORMAT_VERSION
    own: Peer
    heartbeat_s: float
    silence_s: float
    executor: ExecutorConfig | None = None  #: of executors
    layout: KvLayout | None = None  #: of executors
    scheduler: SchedulerConfig | None = None  #: of schedulers
    router: RouterConfig | None = None  #: of routers


class Turn(NamedTuple):
    """One record, still encoded."""

    now: float
    event: bytes
    commands: bytes


class Writable(Protocol):
    def write(self, data: bytes, /) -> Any: ...


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


_encode = msgspec.msgpack.Encoder().encode
_event_decoder = msgspec.msgpack.Decoder(NodeEvent | SeveralEvents)
_header_decoder = msgspec.msgpack.Decoder(JournalHeader)


class JournalWriter:
    """Appends turns to a stream. Whoever made the stream closes it."""

    def __init__(self, stream: Writable, header: JournalHeader) -> None:
        self._write = stream.write
        self._pack = msgpack.Packer(use_bin_type=True).pack
        self._write(self._pack(_encode(header)))

    def record(self, now: float, event: Any, commands: Sequence[Any]) -> None:
        """One turn of the node. Must be called before anything else changes the commands' objects."""
        self._write(self._pack((now, _encode(event), _encode(commands))))


def read_journal(stream: Readable) -> tuple[JournalHeader, Iterator[Turn]]:
    """Header and turns, read as they are asked for. Raises BadJournal; a record that was cut off is left out."""
    unpacker = msgpack.Unpacker(stream, raw=False, max_buffer_size=MAX_RECORD_BYTES)
    try:
        header = _header_decoder.decode(next(unpacker))
    except (StopIteration, TypeError, ValueError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadJournal(f"no journal: {error}") from error
    if header.version != FORMAT_VERSION:
        raise BadJournal(f"journal of format {header.version}, this program reads {FORMAT_VERSION}")
    return header, _turns(unpacker)


def _turns(unpacker: Any) -> Iterator[Turn]:
    try:
        for record in unpacker:
            yield Turn(*record)
    except (TypeError, ValueError) as error:
        raise BadJournal(f"broken record: {error}") from error


def decode_event(data: bytes) -> Any:
    """Raises BadJournal."""
    try:
        event = _event_decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadJournal(f"no event: {error}") from error
    return Several(event.events) if type(event) is SeveralEvents else event


class Difference(NamedTuple):
    """The first turn whose commands are not those of the journal."""

    turn_index: int  #: from 0
    turn: Turn
    commands: bytes  #: what the fresh node answered, encoded


def replay(
    turns: Iterator[Turn], node: Node, on_turn: Callable[[int, Turn], None] | None = None
) -> tuple[int, Difference | None]:
    """Feed the events to a fresh node: the number of turns that agreed, and the first that did not."""
    count = 0
    for index, turn in enumerate(turns):
        if on_turn is not None:
            on_turn(index, turn)
        commands = _encode(node.handle(decode_event(turn.event), turn.now))
        if commands != turn.commands:
            return count, Difference(index, turn, commands)
        count += 1
    return count, None
