"""What is known of one request, before any figure is made of it.

All times are seconds since the run began, on one monotonic clock of whoever asked. Nothing here is derived: every
figure of a report follows from these facts by the definitions beside this file.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import msgspec

UNKNOWN = -1  #: a count that the server did not say


class Failure(enum.StrEnum):
    """Why a request counts as failed; each request has at most one."""

    REFUSED = "refused"  #: 429 or 503: the server takes no more
    HTTP_ERROR = "http_error"  #: another status than 200
    CONNECT = "connect"  #: no connection could be made
    LOST = "lost"  #: the connection ended in the middle of the answer
    ERROR_EVENT = "error_event"  #: an error in place of an answer, after status 200
    MALFORMED = "malformed"  #: bytes that are no answer of this API
    NO_FINISH = "no_finish"  #: the answer ended without a finish reason
    NO_END = "no_end"  #: the stream ended without its end marker
    EMPTY = "empty"  #: an answer without a token
    STALLED = "stalled"  #: nothing came for longer than the run allows
    TIMEOUT = "timeout"  #: it was not over in the time that the run allows
    UNSENT = "unsent"  #: the run ended before it was sent


class Phase(enum.StrEnum):
    """What a request is for. Figures are of the measured ones alone."""

    WARM_UP = "warm_up"
    MEASURED = "measured"


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event that brought something generated: text, reasoning, a tool call. Role and usage events are no chunks."""

    time_s: float  #: stamped when its bytes were read, before they were parsed
    num_chars: int  #: of what it brought
    num_tokens: int = UNKNOWN  #: where the server says it with each event


class TokenChunks(Sequence[Chunk]):
    """Chunks of which only times and tokens are known, in 8 bytes each where they bring one token: a simulated run has
    millions. Equal to the tuple of the same chunks."""

    __slots__ = ("_others", "times")

    def __init__(self) -> None:
        self.times = array("d")  #: whatever is appended here brings one token
        self._others: dict[int, int] = {}  #: tokens of chunks with another number of them, by index

    def add(self, time_s: float, num_tokens: int) -> None:
        if num_tokens != 1:
            self._others[len(self.times)] = num_tokens
        self.times.append(time_s)

    @property
    def counts(self) -> array[int]:
        """Tokens of each."""
        counts = array("i", (1,)) * len(self.times)
        for index, num_tokens in self._others.items():
            counts[index] = num_tokens
        return counts

    @property
    def num_tokens(self) -> int:
        """Of all together."""
        return len(self.times) - len(self._others) + sum(self._others.values())

    def __len__(self) -> int:
        return len(self.times)

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Chunk, ...]: ...
    def __getitem__(self, index: int | slice) -> Chunk | tuple[Chunk, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        at = range(len(self.times))[index]
        return Chunk(self.times[at], 0, self._others.get(at, 1))

    def __iter__(self) -> Iterator[Chunk]:
        return (Chunk(time_s, 0, count) for time_s, count in zip(self.times, self.counts, strict=True))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | TokenChunks) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


if TYPE_CHECKING:
    Chunks = Sequence[Chunk]
else:
    Chunks = tuple[Chunk, ...]  # what is read from a file


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a run. A time that was not reached is None."""

    index: int  #: in the order of the plan, from 0; unique in the run
    phase: Phase = Phase.MEASURED
    session: str = ""  #: requests of one conversation share it
    turn: int = 0  #: within the session
    worker: int = 0  #: the process that sent it
    wanted_output_tokens: int = UNKNOWN  #: `max_tokens`
    scheduled_s: float  #: when it was due: the plan's time, or when a place or its predecessor became free
    is_due_by_plan: bool = True  #: the plan's time, whatever the server does
    held_until_s: float | None = None  #: it was due, and the bound on open requests left no place until then
    dispatched_s: float | None = None  #: taken up by whoever sends
    sent_s: float | None = None  #: its last byte was handed to the socket
    headers_s: float | None = None  #: the answer's head was read
    first_event_s: float | None = None  #: the first event of any kind
    chunks: Chunks = ()
    is_whole: bool = False  #: asked for in one piece: its one chunk came at the end, and no time within it is known
    done_s: float | None = None  #: its end, however it ended
    status: int = 0  #: of HTTP
    num_input_tokens: int = UNKNOWN  #: of `usage`
    num_cached_tokens: int = UNKNOWN  #: of `usage`: input tokens that were found in a cache
    num_output_tokens: int = UNKNOWN  #: of `usage`
    finish_reason: str = ""
    is_cancelled: bool = False  #: ended by this side; neither a success nor a failure
    is_cut_short: bool = False  #: cancelled because the run ended, not as the plan wanted
    failure: Failure | None = None
    detail: str = ""  #: what was said of the failure, in one line
    server_id: str = ""  #: the answer's own id
