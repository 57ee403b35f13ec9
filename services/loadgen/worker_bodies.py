"""Bodies made before they are due, so that making one delays no other."""

from __future__ import annotations

from collections.abc import Sequence

from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import BodyOf, Turn

MAX_PREPARED_BYTES = 64 << 20
MAX_PREPARED = 4096


class PreparedBodies:
    """Keeps a bounded number of bodies ahead, in the order of the plan."""

    def __init__(self, body_of: BodyOf, requests: Sequence[PlannedRequest]) -> None:
        self._body_of = body_of
        self._requests = [request for request in requests if not request.is_next_message]
        self._next = 0  #: of `_requests`; those before it were prepared or taken
        self._taken: set[int] = set()  #: indices taken before they were prepared
        self._bodies: dict[int, bytes] = {}
        self._num_bytes = 0

    def take(self, request: PlannedRequest, history: Sequence[Turn]) -> bytes:
        """The body of a request that is due."""
        body = self._bodies.pop(request.index, None)
        if body is None:
            self._taken.add(request.index)
            return self._body_of(request, history)
        self._num_bytes -= len(body)
        return body

    def prepare_one(self) -> bool:
        """Make the next one; False: there is none, or no room for it."""
        while self._next < len(self._requests) and self._requests[self._next].index in self._taken:
            self._taken.discard(self._requests[self._next].index)
            self._next += 1
        if self._next >= len(self._requests) or not self._has_room():
            return False
        request = self._requests[self._next]
        self._next += 1
        body = self._body_of(request, ())
        self._bodies[request.index] = body
        self._num_bytes += len(body)
        return True

    def _has_room(self) -> bool:
        return self._num_bytes < MAX_PREPARED_BYTES and len(self._bodies) < MAX_PREPARED
