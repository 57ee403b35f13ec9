"""When an attempt reached each stage on this executor: seconds on the host's monotonic clock.

*Launched* is the handing of the attempt's first step to the compute thread, *commit* the call that posts the last piece
(how long that post took is a number of its own, `post_ms`), *activated* the turn after which the sequence may be in
the next step.
"""

from __future__ import annotations

from typing import Literal

Stage = Literal[
    "admitted", "launched", "computed", "first_chunk", "commit", "landed", "activated", "first_token", "last_token"
]


class Marks:
    """The stages of one attempt, and how much of its KV was posted before its prompt was computed."""

    __slots__ = ("at", "bytes_early", "bytes_posted", "post_s", "steps_at_landed")

    def __init__(self, now: float) -> None:
        self.at: dict[Stage, float] = {"admitted": now}  #: one that counts when it is reached last is set each time
        self.bytes_posted = 0
        self.bytes_early = 0
        self.steps_at_landed = 0  #: receiving end: steps that the executor had launched
        self.post_s = 0.0  #: what the post of the last piece took

    def first(self, stage: Stage, now: float) -> None:
        """Mark a stage that counts when it is reached first."""
        self.at.setdefault(stage, now)

    def committed(self, posted_at: float, post_s: float) -> None:
        """A piece has landed whose post was called then; the last one's is the commit."""
        if posted_at >= self.at.get("commit", posted_at):
            self.at["commit"] = posted_at
            self.post_s = post_s

    def posted(self, num_bytes: int, now: float) -> None:
        """A piece goes to the transfer thread."""
        self.first("first_chunk", now)
        self.bytes_posted += num_bytes
        if "computed" not in self.at:
            self.bytes_early += num_bytes

    def between(self, earlier: Stage, later: Stage) -> float | None:
        """Seconds from one stage to the other; None unless both were reached."""
        at = self.at
        return max(0.0, at[later] - at[earlier]) if earlier in at and later in at else None

    def numbers(self) -> dict[str, float]:
        """For one log line: `admitted_s` on the clock, the other stages in milliseconds after it."""
        admitted = self.at["admitted"]
        out = {f"{stage}_ms": (at - admitted) * 1e3 for stage, at in self.at.items() if stage != "admitted"}
        out["admitted_s"] = admitted
        if "commit" in self.at:
            out["post_ms"] = self.post_s * 1e3
        if self.bytes_posted:
            out["early_share"] = self.bytes_early / self.bytes_posted
        return out
