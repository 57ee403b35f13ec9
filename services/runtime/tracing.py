"""What a process says of its last seconds: its records as they are. `baton trace` puts them together."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from baton.core.events import Machine, Span
from baton.core.ids import Peer
from baton.core.trace.recorder import Recorder, note_record, span_record

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(msgspec.Struct, frozen=True):
    """`/clock`."""

    now: float  #: CLOCK_MONOTONIC, in seconds
    boot_id: str  #: processes with the same one have the same clock; empty if the system tells none


class Snapshot(msgspec.Struct, frozen=True):
    """`/trace?seconds=N`: no prompt, no token, no text of an error is in it."""

    name: str
    role: str
    epoch: int
    pid: int
    now: float
    records: list[Any]  #: `baton.core.trace.recorder` says what they hold
    unfinished: list[Any]  #: closing lines of what is under way, as records
    num_forgotten: int  #: records of so many things were dropped since the process began, oldest first


class Tracing:
    """The recorder of one process (None: it keeps no trace) and what it is asked."""

    def __init__(self, own: Peer, machine: Machine, recorder: Recorder | None) -> None:
        self._own = own
        self._machine = machine
        self._recorder = recorder

    def clock(self) -> Clock:
        return Clock(time.monotonic(), boot_id())

    def snapshot(self, seconds: float) -> Snapshot | None:
        """None if nothing is kept."""
        recorder = self._recorder
        if recorder is None:
            return None
        now = time.monotonic()
        return Snapshot(
            self._own.name,
            self._own.role.name.lower(),
            self._own.epoch,
            os.getpid(),
            now,
            recorder.since(now - seconds),
            [
                span_record(one, now) if isinstance(one, Span) else note_record(one, now)
                for one in self._machine.unfinished()
            ],
            recorder.num_forgotten,
        )


def boot_id() -> str:
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
