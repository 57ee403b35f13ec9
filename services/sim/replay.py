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
from baton.services.sim.journal_end import EMPTY, IN_HEADER, how_it_ends

SHOWN_BYTES = 600
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
    return 1


def main(argv: list[str]) -> int:
    """Exit code: the worst of all files."""
    parser = argparse.ArgumentParser(prog="baton replay", description=__doc__)
    parser.add_argument("journals", type=Path, nargs="+")
    parser.add_argument("--hash-key", type=Path, help="file with the deployment's hash key: 16 bytes or 32 hex digits")
    parser.add_argument("--loud", action="store_true", help="print every event")
    options = parser.parse_args(argv)
    key = bytes(range(16))
    if options.hash_key is not None:
        data = options.hash_key.read_bytes().strip()
        key = data if len(data) == 16 else bytes.fromhex(data.decode())
    return max(replay_file(path, key, options.loud) for path in options.journals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
