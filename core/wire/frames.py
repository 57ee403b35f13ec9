"""The outermost frames of a link. They are read before anything is known of the peer, so they are few and small.

A Hello is decoded in two phases: its version first, its body only if the version is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from baton.core.errors import BadMessage

PROTOCOL_VERSION = 7
MAX_FRAME_BYTES = 64 << 20  #: larger frames are refused before they are decoded
MAX_BATCH_BYTES = 1 << 20  #: of several messages in one frame; a larger one goes alone


class Frame(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of all frames. `knock` is the number that the dialing end gave its Hello, `session` the one that the
    accepting end gave the session; neither is ever given again on this link, not by another life either."""


class Hello(Frame, frozen=True, tag=1):
    """Dialing end: begin a session. `body` is the encoded `Peer` of the sender."""

    version: int
    knock: int
    body: bytes


class Welcome(Frame, frozen=True, tag=2):
    """Accepting end: the session begins. `body` is the encoded `Peer` of the sender."""

    knock: int
    session: int
    body: bytes


class Reject(Frame, frozen=True, tag=3):
    """Accepting end: no session with you, and why."""

    knock: int
    detail: str


class Data(Frame, frozen=True, tag=4):
    """Messages, in order, in frame `number` (counted from 0) of this direction of the session: all that the sender had
    to say at the end of one turn."""

    session: int
    number: int
    bodies: tuple[bytes, ...]


class Beat(Frame, frozen=True, tag=5):
    """Still there; `num_sent` frames with messages were sent so far in this direction."""

    session: int
    num_sent: int


class Reset(Frame, frozen=True, tag=6):
    """This session is over or unknown here: say Hello again."""

    session: int


AnyFrame = Hello | Welcome | Reject | Data | Beat | Reset

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyFrame)


def batches(bodies: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Messages as they go into frames: as many as may, in order."""
    batch: list[bytes] = []
    num_bytes = 0
    for body in bodies:
        num_bytes += len(body)
        if batch and num_bytes > MAX_BATCH_BYTES:
            yield tuple(batch)
            batch, num_bytes = [], len(body)
        batch.append(body)
    if batch:
        yield tuple(batch)


def encode_frame(frame: AnyFrame) -> bytes:
    return _encoder.encode(frame)


def decode_frame(data: bytes) -> AnyFrame:
    """Raises BadMessage for whatever is no frame."""
    if len(data) > MAX_FRAME_BYTES:
        raise BadMessage(f"frame of {len(data)} bytes, at most {MAX_FRAME_BYTES} are taken")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"no frame: {error}") from error
