"""Receiving end: one writer's transfers, with the books of what is asked about all of them for each message.

Hundreds may be open, so nobody looks through them to say whether one is moving or how much is in quarantine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.core.executor.sequence import Transfer

if TYPE_CHECKING:
    from baton.core.executor.state import ExecutorState
    from baton.core.executor.transfers import Incoming


class Arrivals:
    """Transfers of one writer that are not closed, by their ids."""

    __slots__ = ("moving", "quarantined", "transfers")

    def __init__(self) -> None:
        self.transfers: dict[int, Incoming] = {}
        self.moving: set[int] = set()  #: of which writes may be under way
        self.quarantined: dict[int, int] = {}  #: blocks of those that were given up

    def note(self, transfer: Incoming) -> None:
        """It is new, or a message or a decision has changed it."""
        transfer_id = transfer.transfer_id
        if transfer.status is Transfer.CLOSED:
            del self.transfers[transfer_id]
            self.moving.discard(transfer_id)
            self.quarantined.pop(transfer_id, None)
            return
        self.transfers[transfer_id] = transfer
        if transfer.is_moving:
            self.moving.add(transfer_id)
        else:
            self.moving.discard(transfer_id)
        if transfer.status is Transfer.QUARANTINED:
            self.quarantined[transfer_id] = transfer.num_blocks


def note(state: ExecutorState, transfer: Incoming) -> None:
    """Keep the books of the transfer's writer; they go with its last one."""
    of_writer = state.arrivals.get(transfer.peer)
    if of_writer is None:
        of_writer = state.arrivals[transfer.peer] = Arrivals()
    of_writer.note(transfer)
    if not of_writer.transfers:
        del state.arrivals[transfer.peer]
