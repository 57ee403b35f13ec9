"""When an attempt reached each stage on this executor: seconds on the host's monotonic clock.

*Launched* is the handing of the first prompt step to the compute thread, *commit* the call that posts the last piece
(how long that post takes is not in it), *activated* the turn after which the sequence may be in the next step.
"""

from __future__ import annotations

from typing import Literal

Stage = Literal[
    "admitted", "launched", "computed", "first_chunk", "commit", "landed", "activated", "first_token", "last_token"
]


class Marks:
    """The stages of one attempt, and how much of its KV was posted before its prompt was computed."""

    __slots__ = ("at", "bytes_early", "bytes_posted")

    def __init__(self, now: float) -> None:
        self.at: dict[Stage, float] = {"admitted": now}
        self.bytes_posted = 0
        self.bytes_early = 0

    def first(self, stage: Stage, now: float) -> None:
        """Mark a stage that counts when it is reached first."""
        self.at.setdefault(stage, now)

    def last(self, stage: Stage, now: float) -> None:
        """Mark a stage that counts when it is reached last."""
        self.at[stage] = now

    def posted(self, num_bytes: int, now: float) -> None:
        """A piece goes to the transfer thread."""
        self.first("first_chunk", now)
        self.bytes_posted += num_bytes
        if "computed" not in self.at:
            self.bytes_early += num_bytes

    def numbers(self) -> dict[str, float]:
        """For one log line: `admitted_s` on the clock, the other stages in milliseconds after it."""
        admitted = self.at["admitted"]
        out = {f"{stage}_ms": (at - admitted) * 1e3 for stage, at in self.at.items() if stage != "admitted"}
        out["admitted_s"] = admitted
        if self.bytes_posted:
            out["early_share"] = self.bytes_early / self.bytes_posted
        return out
