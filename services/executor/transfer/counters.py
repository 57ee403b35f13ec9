"""What the transfer thread did since it started, for metrics."""

from __future__ import annotations


class TransferCounters:
    """Plain counters: each is written by one thread and may be read by any. They only grow."""

    __slots__ = (
        "num_agents_closed",
        "num_agents_opened",
        "num_failed_pieces",
        "num_landed_bytes",
        "num_landed_pieces",
        "num_posted_bytes",
        "num_posted_pieces",
        "num_submitted_pieces",
        "post_s",
    )

    def __init__(self) -> None:
        self.num_submitted_pieces = 0  #: taken by `submit`; the only one that the submitting thread writes
        self.num_posted_pieces = 0  #: given to the transport
        self.num_posted_bytes = 0  #: bytes of their descriptors
        self.num_landed_pieces = 0  #: proven by DONE
        self.num_landed_bytes = 0
        self.num_failed_pieces = 0  #: reported as failed, posted or not
        self.num_agents_opened = 0
        self.num_agents_closed = 0
        self.post_s = 0.0  #: time inside posts; some transports copy there

    @property
    def num_unfinished_pieces(self) -> int:
        """Submitted and neither landed nor failed."""
        return self.num_submitted_pieces - self.num_landed_pieces - self.num_failed_pieces
