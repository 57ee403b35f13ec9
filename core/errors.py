"""The errors of Baton, as one tree.

::

    ServingError
    ├─ RequestFailed       final for this request
    ├─ Incompatible        final for this pair of processes
    ├─ BadMessage          a peer sent bytes that are no message of this link
    └─ InvariantViolated   a bug of ours: the process stops loudly
       └─ IllegalTransition   carries the story of the object
"""

from __future__ import annotations

import enum


class Reason(enum.IntEnum):
    """Why something waits, is refused or failed. Public: may be shown to clients; numbers are never reused."""

    TOKEN_BUDGET = 1  #: the step's tokens are spent
    NO_SLOT = 2  #: no sequence slot is free
    KV_EXHAUSTED = 3  #: too few free blocks
    TRANSFER_WINDOW = 4  #: too many bytes posted and not landed
    STAGING = 5  #: no bounce memory
    PREFIX_WAIT = 6  #: waits for a prefix that another sequence computes
    HELD = 7  #: prefill is kept back on purpose
    PROTECTED = 8  #: decode steps come first
    NO_EXECUTOR = 9  #: no live executor can serve it
    NEVER_FITS = 10  #: larger than an empty executor
    QUARANTINE = 11  #: too many blocks wait for a writer's proof
    QUEUE_FULL = 12  #: the arrival queue is at its bound
    DEADLINE = 13  #: the request's time is over
    ABORTED = 14  #: the client or the operator ended it
    DRAINING = 15  #: the process takes nothing new
    PEER_LOST = 16  #: the link to, or the process of, an executor was lost
    TRANSFER_FAILED = 17  #: a KV write ended in an error
    PREEMPTED = 18  #: its memory went to an older sequence
    STEP_FAILED = 19  #: the device lost or broke the step
    PARKED = 20  #: too many computed tokens wait for their transfer
    LINK_BUSY = 21  #: a connection is being set up or repaired
    TOO_MANY_ATTEMPTS = 22  #: it failed as often as a request may
    STALLED = 23  #: the client does not read its stream
    INTERNAL = 24  #: a bug
    GRAMMAR_FAILED = 25  #: no valid continuation of the answer could be found within the limits of grammars
    UNSHARED = 26  #: another prompt would make the step longer and save next to nothing


class ServingError(Exception):
    """Root of all errors that Baton raises on purpose."""


class RequestFailed(ServingError):
    """The request has ended without an answer; final."""

    def __init__(self, reason: Reason, message: str = "") -> None:
        self.reason = reason
        super().__init__(message or reason.name)


class Incompatible(ServingError):
    """Two processes cannot work together: protocol, layout or model differ."""


class BadMessage(ServingError):
    """Bytes of a peer that are no valid message of this link."""


class InvariantViolated(ServingError):
    """A law of the system is broken: a bug. The process must stop and must not free anything."""


class IllegalTransition(InvariantViolated):
    """An object was asked for a move that its state does not allow; `story` tells how it came there."""

    def __init__(self, what: str, story: tuple[str, ...] = ()) -> None:
        self.story = story
        super().__init__(what + ("" if not story else "\n  " + "\n  ".join(story)))
