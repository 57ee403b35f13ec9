"""What can go wrong inside the transfer thread. Faults of peers become events; a passed bound is our bug."""

from baton.core.errors import InvariantViolated, ServingError


class TransportBroken(ServingError):
    """The connection of one agent gives no more proofs: its writes end only with the agent."""


class PieceRefused(ServingError):
    """The piece names what does not exist or was not agreed; nothing of it was posted."""


class TransferQueueFull(InvariantViolated):
    """More pieces were submitted than the limits on bytes in flight could ever allow."""
