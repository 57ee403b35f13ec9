"""A prefill executor whose one loop launches steps and drives transfers: launches block it while the device is behind.

A launch takes the loop `launch_s` and `launch_token_s` for each token, and waits while `depth` steps are with the
device and not done. Meanwhile nothing is posted and no message is heard; landings are noticed by a thread of the
transport's own. `order` says what comes first in a turn, after what is said: `launch` (others' original) or `post`
(their fix). A post comes `post_s` after the turn that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from baton.core.events import each_of
from baton.core.executor.events import Launch, PieceLanded, Post
from baton.core.ids import Role
from baton.core.session.machine import Transmit
from baton.core.sim.fleet_run.device import TimedDevice
from baton.core.sim.fleet_run.parts import Parts
from baton.core.sim.fleet_run.process import LoopProcess

ORDERS = ("launch", "post")


class CountingDevice(TimedDevice):
    """Tells whoever waits when a step is done, whether the loop can hear it or not."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._waiting: Callable[[], None] | None = None

    @property
    def num_queued(self) -> int:
        return sum(len(lane.queue) for lane in self.lanes.values())

    def when_done(self, then: Callable[[], None]) -> None:
        """Once, with the next step that is done."""
        self._waiting = then

    def _finish(self, lane: Any, serial: int) -> None:
        before = self.num_steps
        super()._finish(lane, serial)
        if self.num_steps > before and self._waiting is not None:
            then, self._waiting = self._waiting, None
            then()


class Costs(NamedTuple):
    """Of the loop, in seconds."""

    launch_s: float
    launch_token_s: float
    post_s: float


class OneLoop(LoopProcess):
    """See the module."""

    def __init__(self, order: str, depth: int, costs: Costs, *arguments: Any) -> None:
        env, own, node, turn, perform = arguments
        super().__init__(env, own, node, turn, self._perform_slowly)
        self._others = perform
        self._is_one = own.role is Role.PREFILL
        self._rank: dict[type, int] = {Launch: 1 if order == "launch" else 3, Post: 2}  #: what is said goes first
        self._depth = depth
        self._costs = costs
        self._is_noticing = False  #: a landing is told while the loop is busy

    def report(self, event: Any) -> None:
        """Landings are told at once: what they make the loop do waits, what is said of them does not."""
        if not (self._is_one and self.is_occupied and _is_landing(event)):
            super().report(event)
            return
        self._is_noticing = True
        self._turn(self, event)
        self._is_noticing = False

    def perform(self, commands: Sequence[Any]) -> None:
        if not self._is_one:
            super().perform(commands)
        elif self._is_noticing:
            for command in commands:  # frames of a link never pass each other
                if type(command) in self._rank or any(type(waiting) is Transmit for waiting in self._commands):
                    self._commands.append(command)
                else:
                    self._others(self, command)
        else:
            super().perform(sorted(commands, key=lambda command: self._rank.get(type(command), 0)))

    def _perform_slowly(self, _: LoopProcess, command: Any) -> None:
        if self._is_one and type(command) is Launch:
            self.block()
            self._launch_when_room(command)
        elif self._is_one and type(command) is Post and self._costs.post_s:
            self.block()
            self.env.time.after(self._costs.post_s, self._post, command)
        else:
            self._others(self, command)

    def _post(self, command: Post) -> None:
        self._others(self, command)
        self.unblock()

    def _launch_when_room(self, command: Launch) -> None:
        device = self.compute
        assert isinstance(device, CountingDevice)
        if device.num_queued >= self._depth:
            device.when_done(partial(self._launch_when_room, command))
            return
        self._others(self, command)
        costs = self._costs
        self.env.time.after(costs.launch_s + costs.launch_token_s * command.plan.num_tokens, self.unblock)


def _is_landing(event: Any) -> bool:
    return all(isinstance(each, PieceLanded) for each in each_of(event))


def make(
    order: str = "launch",
    depth: int = 2,
    launch_s: float = 0.0,
    launch_token_s: float = 0.0,
    post_s: float = 0.0,
) -> Parts:
    """Raises TypeError for an order that there is not."""
    if order not in ORDERS:
        raise TypeError(f"order: {order!r} is none of {', '.join(ORDERS)}")
    costs = Costs(float(launch_s), float(launch_token_s), float(post_s))
    return Parts(process=partial(OneLoop, order, int(depth), costs), device=CountingDevice)
