"""How many bytes of one pair may be on their way (W1): twice its bandwidth × latency, as its pieces show them.

Bandwidth is the largest rate of late: what landed between a piece's sending and its landing, by that time. Latency is
the median of pieces that were sent while nothing else of the pair was on its way, so that no queue of its own is in it
and a window that was too large never makes itself larger. Where the pair has not been empty for many windows, it is let
run empty once. Both count from the executor's machine to its machine: the threads' queues and the busy loop are part of
the way.
"""

from __future__ import annotations

from collections import deque

import msgspec

NUM_RATES = 64  #: rates that the bandwidth is the largest of
NUM_LATENCIES = 9  #: latencies that count is the median of
GAIN = 2  #: windows of bandwidth × latency: one on the way, one whose credit is on its way back
PROBE_AFTER = 64  #: windows that landed since the pair was empty, after which it is let run empty


class Flight(msgspec.Struct, frozen=True, gc=False):
    """A piece on its way, and how far the pair was when it was sent."""

    num_bytes: int
    sent_at: float
    num_landed: int  #: bytes of the pair that had landed
    since: float  #: when the last of them did; when the piece was sent, if nothing was on its way
    is_alone: bool  #: nothing of the pair was on its way


class PairWindow:
    """Measures one pair. `num_bytes` is its window: never below `floor`; the caller knows the bounds from above."""

    __slots__ = (
        "_floor", "_landed_at", "_lone", "_num_bytes", "_num_landed", "_overhead_s", "_probe_at", "_rates",
        "bytes_per_s",
    )  # fmt: skip

    def __init__(self, floor: int) -> None:
        self.bytes_per_s = 0.0  #: the largest of the rates; 0: not measured yet
        self._num_bytes: int | None = floor  #: None: a rate or a latency has changed since it was found
        self._overhead_s: float | None = 0.0  #: the same
        self._floor = floor
        self._num_landed = 0
        self._landed_at = 0.0
        self._probe_at = PROBE_AFTER * floor  #: landed bytes at which the pair is let run empty
        self._rates: deque[float] = deque(maxlen=NUM_RATES)
        self._lone: deque[tuple[float, int]] = deque(maxlen=NUM_LATENCIES)  #: (seconds, bytes) of pieces sent alone

    @property
    def is_probing(self) -> bool:
        """Whether nothing more is to be sent until the pair is empty."""
        return self._num_landed >= self._probe_at

    def sent(self, num_bytes: int, now: float, is_alone: bool) -> Flight:
        """A piece goes; `is_alone` when nothing of the pair is on its way."""
        if is_alone:
            self._landed_at = now
            self._probe_at = self._num_landed + PROBE_AFTER * self.num_bytes
        return Flight(num_bytes, now, self._num_landed, self._landed_at, is_alone)

    def landed(self, flight: Flight, now: float) -> None:
        """Its handle reached DONE. What did not is no measure of anything."""
        self._num_landed += flight.num_bytes
        self._landed_at = now
        if now > flight.since:
            self._note_rate((self._num_landed - flight.num_landed) / (now - flight.since))
        if flight.is_alone and now > flight.sent_at:
            self._lone.append((now - flight.sent_at, flight.num_bytes))
            self._num_bytes = self._overhead_s = None

    @property
    def num_bytes(self) -> int:
        """The window. Found when it is asked for, if anything has changed since: nearly all pieces that land change
        nothing."""
        if self._num_bytes is None:
            latency_s = _median([s for s, _ in self._lone]) if self._lone else 0.0
            self._num_bytes = max(self._floor, int(GAIN * self.bytes_per_s * latency_s))
        return self._num_bytes

    def _note_rate(self, rate: float) -> None:
        rates = self._rates
        leaves = rates[0] if len(rates) == NUM_RATES else 0.0
        rates.append(rate)
        if rate > self.bytes_per_s or leaves == self.bytes_per_s > rate:
            self.bytes_per_s = max(rates)
            self._num_bytes = self._overhead_s = None

    @property
    def overhead_s(self) -> float:
        """What a piece takes beyond its bytes."""
        if self._overhead_s is None:
            rate, lone = self.bytes_per_s, self._lone
            self._overhead_s = max(0.0, _median([s - size / rate for s, size in lone])) if rate and lone else 0.0
        return self._overhead_s


class TransferPace:
    """What moving KV was measured to cost lately: by the pair whose piece landed last."""

    __slots__ = ("window",)

    def __init__(self) -> None:
        self.window: PairWindow | None = None

    @property
    def us(self) -> float:
        """Microseconds from the post to the proof, beyond those of the bytes; 0: not measured yet."""
        return 0.0 if self.window is None else self.window.overhead_s * 1e6

    @property
    def bytes_per_s(self) -> float:
        """0: not measured yet."""
        return 0.0 if self.window is None else self.window.bytes_per_s


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
