"""Frames that no peer of ours would say: altered under way, or said by something that is no peer."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.errors import BadMessage
from baton.core.sim.env import Env
from baton.core.wire import frames as f

UNREADABLE = b"\xc1"  #: never used in MessagePack


def spoil(env: Env, data: bytes) -> bytes:
    """Another frame in place of this one: bytes that are no frame, a body that is no message, another protocol, a
    refusal, numbers that were never given."""
    try:
        frame = f.decode_frame(data)
    except BadMessage:
        return b""  # spoiled twice
    cut = data[: int(env.random() * len(data))]
    choices: list[bytes | f.AnyFrame] = [b"", UNREADABLE, cut]
    match frame:
        case f.Hello():
            choices += [replace(frame, version=frame.version + 1), replace(frame, body=UNREADABLE)]
            choices += [f.Reject(frame.knock, "spoiled"), f.Welcome(frame.knock, 7, frame.body)]
        case f.Welcome():
            choices += [replace(frame, body=UNREADABLE), f.Reject(frame.knock, "spoiled"), f.Reset(frame.session)]
        case f.Data():
            choices += [replace(frame, bodies=(UNREADABLE,)), replace(frame, session=7), replace(frame, number=1 << 40)]
        case f.Beat():
            choices += [replace(frame, num_sent=frame.num_sent + 1), replace(frame, session=0), f.Reject(7, "spoiled")]
        case _:
            choices += [f.Beat(7, 0), f.Hello(f.PROTOCOL_VERSION, 7, UNREADABLE)]
    chosen = choices[int(env.random() * len(choices))]
    return chosen if isinstance(chosen, bytes) else f.encode_frame(chosen)
