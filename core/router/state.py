"""The state of one router's machine, owned by the machine and passed to the module that decides on attempts."""

from __future__ import annotations

from typing import Any

from baton.core.config import RouterConfig
from baton.core.deadlines import Deadlines
from baton.core.events import Send
from baton.core.ids import AttemptId, Life, Peer
from baton.core.router.executors import Executors
from baton.core.router.streams import Leg, LegState, Stream


class RouterState:
    """Everything that the router's machine knows. `out` collects the commands of the current turn, in order."""

    def __init__(self, own: Peer, config: RouterConfig) -> None:
        self.own = own
        self.config = config
        self.now = 0.0
        self.out: list[Any] = []
        self.streams: dict[int, Stream] = {}  #: accepted requests without their end
        self.num_choices = 0  #: of all streams
        self.legs: dict[int, Leg] = {}  #: of all streams, by their id on the wire
        self.deadlines: Deadlines[int] = Deadlines()
        self.paused: Deadlines[int] = Deadlines()
        self.scheduler: Peer | None = None  #: while its session is up
        self.executors = Executors()
        self.num_parts = 0  #: legs of one choice each that attempts of several were split into
        self.sweep_at = 0.0
        self.counters: dict[str, int] = {}

    def current(self, work_id: AttemptId) -> Leg | None:
        """The leg whose attempt is under way under this id."""
        leg = self.legs.get(work_id.request_id)
        return leg if leg is not None and leg.attempt == work_id.attempt and leg.state is not LegState.PAUSED else None

    def tell(self, name: str, message: Any) -> None:
        self.out.append(Send(name, message))

    def tell_life(self, life: Life, message: Any) -> None:
        """Said only while that life's session is up."""
        if self.executors.is_linked(life):
            self.tell(life.name, message)

    def tell_holders(self, leg: Leg, message: Any) -> None:
        """Say it to everyone who may hold something of the leg's current attempt."""
        for life in dict.fromkeys(life for life in (leg.prefill, leg.decode) if life is not None):
            self.tell_life(life, message)

    def count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1
