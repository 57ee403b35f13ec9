"""`baton replay`: feeds a journal's events to a fresh node and compares every command, byte for byte."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from baton.core.events import Machine
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import Role
from baton.core.journal import BadJournal, Difference, JournalHeader, Turn, decode_event, read_journal, replay
from baton.core.router.machine import RouterCore
from baton.core.scheduler.machine import SchedulerCore
from baton.core.session.machine import LinkTiming
from baton.core.session.node import Node
from baton.core.sim.wiring import HASH_KEY
from baton.services.sim.journal_end import EMPTY, IN_HEADER, how_it_ends

SHOWN_BYTES = 600
NUM_KEY_BYTES = 16
NOTHING_TO_REPLAY = (EMPTY, IN_HEADER)


def make_node(header: JournalHeader, hash_key: bytes) -> Node:
    """The node that the header describes, as it was before its first event. Raises BadJournal."""
    own = header.own
    machine: Machine | None = None
    if own.role is Role.ROUTER and header.router is not None:
        machine = RouterCore(own, header.router)
    elif own.role is Role.SCHEDULER and header.scheduler is not None:
        machine = SchedulerCore(own, header.scheduler)
    elif own.role.is_executor and header.executor is not None and header.layout is not None:
        machine = ExecutorCore(own, header.layout, header.executor, hash_key)
    if machine is None:
        raise BadJournal(f"the header of {own.name} lacks the configuration of a {own.role.name}")
    return Node(own, machine, LinkTiming(header.heartbeat_s, header.silence_s))


def _tell(index: int, turn: Turn) -> None:
    print(f"{index:>8}  {turn.now:.6f}  {decode_event(turn.event)!s:.200}")


def _tell_difference(difference: Difference) -> None:
    event = decode_event(difference.turn.event)
    print(f"turn {difference.turn_index} at {difference.turn.now:.6f}: {event!s:.{SHOWN_BYTES}}")
    for title, data in (("journal", difference.turn.commands), ("replay", difference.commands)):
        print(f"  {title:<8}{msgspec.msgpack.decode(data)!s:.{SHOWN_BYTES}}")


def read_hash_key(path: Path) -> bytes:
    """16 bytes. Raises ValueError, which says what is wrong with the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) == NUM_KEY_BYTES:
        return data
    try:
        key = bytes.fromhex(data.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != NUM_KEY_BYTES:
        raise ValueError(f"{path} holds no hash key: {NUM_KEY_BYTES} bytes, or {2 * NUM_KEY_BYTES} hexadecimal digits")
    return key


def replay_file(path: Path, hash_key: bytes, is_loud: bool) -> int:
    """Exit code: 0 if every command is the same, 1 if one differs, 2 if it is no journal. An end in the middle, as a
    killed process leaves it, is told and is no failure."""
    try:
        note = how_it_ends(path)
        if note in NOTHING_TO_REPLAY:
            print(f"{path}: {note}")
            return 0
        with path.open("rb") as stream:
            header, turns = read_journal(stream)
            count, difference = replay(turns, make_node(header, hash_key), _tell if is_loud else None)
    except (BadJournal, OSError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    own = header.own
    told = f"{own.name}/{own.epoch} ({own.role.name.lower()}), {count} turns agree"
    print(f"{path}: {told}{f', {note}' if note else ''}")
    if difference is None:
        return 0
    _tell_difference(difference)
    if own.role.is_executor:
        print("  what an executor does depends on the deployment's hash key: is it the one of --hash-key?")
    return 1


def main(argv: list[str]) -> int:
    """Exit code: the worst of all files."""
    parser = argparse.ArgumentParser(prog="baton replay", description=__doc__)
    parser.add_argument("journals", type=Path, nargs="+", metavar="JOURNAL", help="a file that --journal made")
    parser.add_argument(
        "--hash-key",
        type=Path,
        help="file with the deployment's hash key, as --journal leaves it; the simulator's by default",
    )
    parser.add_argument("--loud", action="store_true", help="print every event")
    options = parser.parse_args(argv)
    try:
        key = HASH_KEY if options.hash_key is None else read_hash_key(options.hash_key)
    except ValueError as error:
        parser.error(f"--hash-key: {error}")
    return max(replay_file(path, key, options.loud) for path in options.journals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
