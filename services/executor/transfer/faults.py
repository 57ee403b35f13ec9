"""Injected faults: process tests name, piece by piece, what shall go wrong."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from baton.core.executor.events import Piece

#: Asked once for each piece: "fail" (report it as failed, post nothing), "delay:SECONDS" (post it later), or None.
FaultSource = Callable[[Piece], str | None]


class Fault(msgspec.Struct, frozen=True):
    is_failed: bool = False
    delay_s: float = 0.0


NO_FAULT = Fault()


def parse_fault(text: str | None) -> Fault:
    """Raise ValueError for a text that is no fault."""
    if text is None:
        return NO_FAULT
    if text == "fail":
        return Fault(is_failed=True)
    kind, _, value = text.partition(":")
    if kind != "delay":
        raise ValueError(f"no such fault: {text!r}")
    return Fault(delay_s=float(value))
