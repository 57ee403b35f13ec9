"""How a journal's file ends: a process that was killed leaves the beginning of a turn, which is no fault of the file.

A turn is three values, of which event and commands are one MessagePack value each, as binary. So what is left after the
last whole turn is a beginning only if every length in it is right: where a binary holds its whole value and claims more
bytes than the file has, the length is wrong, and the file is broken there.
"""

from __future__ import annotations

from pathlib import Path

import msgpack

from baton.core.journal import MAX_RECORD_BYTES, BadJournal

EMPTY = "empty"
IN_HEADER = "ends in the middle of its header"
IN_TURN = "ends in the middle of a turn"
TURN_HEAD = b"\x93\xcb"  #: an array of three; a 64-bit float, the time
NUM_TIME_BYTES = 8
LENGTH_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}  #: of a binary, by its first byte
NUM_BINARIES = 2  #: event and commands


def how_it_ends(path: Path) -> str:
    """Empty where it ends with a whole turn. Raises BadJournal where its end is no beginning of a turn."""
    num_bytes = path.stat().st_size
    if num_bytes == 0:
        return EMPTY
    num_whole, end = whole_records(path)
    if end == num_bytes:
        return ""
    with path.open("rb") as stream:
        stream.seek(end)
        rest = stream.read()
    if not (begins_turn(rest) if num_whole else begins_binaries(rest, 1)):
        raise BadJournal(f"broken record at byte {end}")
    return IN_TURN if num_whole else IN_HEADER


def whole_records(path: Path) -> tuple[int, int]:
    """How many records are there as a whole, and where the last of them ends."""
    count = end = 0
    with path.open("rb") as stream:
        unpacker = msgpack.Unpacker(stream, max_buffer_size=MAX_RECORD_BYTES)
        try:
            while True:
                unpacker.skip()
                count, end = count + 1, unpacker.tell()
        except msgpack.OutOfData:
            return count, end
        except (ValueError, msgpack.UnpackException) as error:
            raise BadJournal(f"broken record at byte {end}: {error}") from error


def begins_turn(rest: bytes) -> bool:
    head = len(TURN_HEAD)
    return rest[:head] == TURN_HEAD[: len(rest)] and begins_binaries(rest[head + NUM_TIME_BYTES :], NUM_BINARIES)


def begins_binaries(rest: bytes, count: int) -> bool:
    """Whether these bytes are the beginning of so many binaries and are not all of them."""
    for _ in range(count):
        if not rest:
            return True
        num_length_bytes = LENGTH_BYTES.get(rest[0])
        if num_length_bytes is None:
            return False
        length, rest = rest[1 : 1 + num_length_bytes], rest[1 + num_length_bytes :]
        if len(length) < num_length_bytes:
            return True
        if len(rest) < int.from_bytes(length, "big"):
            return not holds_value(rest)
        rest = rest[int.from_bytes(length, "big") :]
    return False


def holds_value(data: bytes) -> bool:
    """Whether one MessagePack value is in there as a whole (or what can be none)."""
    unpacker = msgpack.Unpacker(max_buffer_size=MAX_RECORD_BYTES)
    unpacker.feed(data)
    try:
        unpacker.skip()
    except msgpack.OutOfData:
        return False
    except ValueError:
        return True
    return True
