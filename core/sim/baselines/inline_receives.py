"""Receives that are set up by the loop that launches decode steps: it waits for bounce memory, decode with it.

Each receive reserves its bytes of a bounce buffer until its KV has landed. `window` says what stands before that:

- `none`: the loop waits for the buffer, step or no step;
- `late`: the window is looked at after the KV blocks are allocated: where it is full they are given back, and allocated
  again at the loop's next turn;
- `early`: the window is looked at before anything is allocated: what does not fit waits, and nothing else does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from baton.core.events import PeerDown, Received, Send
from baton.core.executor import events as e
from baton.core.executor.machine import ExecutorCore
from baton.core.executor.sequence import Compute
from baton.core.ids import Peer, Role
from baton.core.session.node import Node
from baton.core.sim.fleet_run.parts import FleetWiring, Parts
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.transfer import TimedTransfer
from baton.core.sim.scenario import ExecutorSpec
from baton.core.sim.wiring import HASH_KEY
from baton.core.wire import messages as m

WINDOWS = ("none", "late", "early")
LOOP_S = 1e-3  #: of a loop that has nothing else to do than to look at the next receive


class SetUp(msgspec.Struct, frozen=True):
    """The loop sets up a receive of so many bytes."""

    num_bytes: int


class Bounce:
    """The bounce buffer of one decode executor. One receive that is larger than all of it goes alone."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.used = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def fits(self, num_bytes: int) -> bool:
        return not self.used or self.used + num_bytes <= self.num_bytes

    def reserve(self, num_bytes: int, then: Callable[[], None]) -> bool:
        """Whether it was there at once; else `then` is called when it is."""
        if not self._waiting and self.fits(num_bytes):
            self.used += num_bytes
            return True
        self._waiting.append((num_bytes, then))
        return False

    def free(self, num_bytes: int) -> None:
        self.used -= num_bytes
        while self._waiting and self.fits(self._waiting[0][0]):
            wanted, then = self._waiting.popleft()
            self.used += wanted
            then()


class Bounces:
    """By decode executor."""

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._by_name: dict[str, Bounce] = {}

    def of(self, name: str) -> Bounce:
        return self._by_name.setdefault(name, Bounce(self._num_bytes))


class InlineLoop(LoopProcess):
    """A loop that sets up receives itself."""

    def __init__(self, bounces: Bounces, setup_s: float, *arguments: Any) -> None:
        env, own, node, turn, perform = arguments
        super().__init__(env, own, node, turn, self._perform_or_set_up)
        self._others = perform
        self._bounce = bounces.of(own.name)
        self._setup_s = setup_s

    def _perform_or_set_up(self, _: LoopProcess, command: Any) -> None:
        if type(command) is not SetUp:
            self._others(self, command)
        elif self._bounce.reserve(command.num_bytes, self._go_on):
            self.occupy(self._setup_s)
        else:
            self.block()

    def _go_on(self) -> None:
        self.env.time.after(self._setup_s, self.unblock)


class BouncedTransfer(TimedTransfer):
    """The receiver's bounce memory is free when the bytes have landed, whatever its loop does."""

    def __init__(self, bounces: Bounces, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bounces = bounces

    def _land(self, landed: list[e.PieceLanded], peer: str, posted_at: float, at: float, num_bytes: int) -> None:
        super()._land(landed, peer, posted_at, at, num_bytes)
        self._env.time.at(at, self._bounces.of(peer).free, num_bytes)


class InlineCore(ExecutorCore):
    """A decode executor that says `SetUp` before each Receive, and looks at the window late or early if at all."""

    def __init__(self, bounce: Bounce, window: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.num_rolled_back = 0  #: blocks that were allocated and given back because the window was full
        self._bounce = bounce
        self._window = window
        self._held: deque[Received] = deque()
        self._begun_at = -1.0  #: when the last receive was set up: one in each turn

    def handle(self, event: Any, now: float) -> list[Any]:
        out: list[Any] = []
        if isinstance(event, Received) and isinstance(event.message, m.Decode):
            self._held.append(event)
        else:
            if isinstance(event, PeerDown):
                self._held.clear()
            out = super().handle(event, now)
        if self._held and now > self._begun_at and self._may_begin(self._held[0].message):
            self._begun_at = now
            for command in super().handle(self._held.popleft(), now):
                if isinstance(getattr(command, "message", None), m.Receive):
                    out.append(SetUp(len(command.message.block_ids) // 4 * self.state.layout.block_bytes))
                out.append(command)
        if self._held:  # the next one when the loop comes round again
            self.next_wake = min(self.next_wake or now + LOOP_S, now + LOOP_S)
        return out

    def gauges(self) -> dict[str, float]:
        return super().gauges() | {"blocks_rolled_back_total": self.num_rolled_back}

    def _may_begin(self, message: m.Decode) -> bool:
        fits = self._bounce.fits(self._bytes_of(message))
        if self._window == "late" and not fits:
            ids = self.state.memory.pool.allocate(message.num_blocks)
            self.state.memory.pool.release(ids)
            self.num_rolled_back += message.num_blocks
        return fits or self._window == "none"

    def _bytes_of(self, message: m.Decode) -> int:
        return self.state.layout.blocks_for(message.work.num_tokens) * self.state.layout.block_bytes


class LateCore(ExecutorCore):
    """A prefill executor whose prompts are handed over when they are computed, not before."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._early: list[Send] = []

    def handle(self, event: Any, now: float) -> list[Any]:
        out: list[Any] = []
        for command in (*super().handle(event, now), *self._take()):
            message = getattr(command, "message", None)
            if isinstance(message, m.Due) and not self._is_computed(message):
                self._early.append(command)
            else:
                out.append(command)
        return out

    def _take(self) -> list[Send]:
        early, self._early = self._early, []
        return early

    def _is_computed(self, due: m.Due) -> bool:
        group = self.state.groups.get(due.id)
        return group is None or group.first.compute is Compute.COMPUTED


class InlineWiring(FleetWiring):
    def __init__(self, bounces: Bounces, window: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bounces = bounces
        self._window = window

    def executor(self, own: Peer, spec: ExecutorSpec) -> Node:
        shared = own, self._layout, spec.config, HASH_KEY
        if own.role is Role.PREFILL:
            return Node(own, LateCore(*shared), self._timing)
        if own.role is Role.DECODE:
            return Node(own, InlineCore(self._bounces.of(own.name), self._window, *shared), self._timing)
        return super().executor(own, spec)


def make(bounce_bytes: int, window: str = "none", setup_s: float = 0.0) -> Parts:
    """Raises TypeError for a window that there is not."""
    if window not in WINDOWS:
        raise TypeError(f"window: {window!r} is none of {', '.join(WINDOWS)}")
    bounces = Bounces(int(bounce_bytes))
    return Parts(
        process=partial(InlineLoop, bounces, setup_s),
        transfer=partial(BouncedTransfer, bounces),
        wiring=partial(InlineWiring, bounces, window),
    )
