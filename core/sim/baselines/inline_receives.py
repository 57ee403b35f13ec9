"""Receives that are set up by the loop that launches decode steps: it waits for bounce memory, decode with it.

Each receive takes its bytes of a bounce buffer until the loop has heard that its KV has landed. The loop looks at the
next receive once in each round: when a step is done, or all the time while it has no step. `window` says what stands
before that:

- `none`: where the buffer is full the loop waits for it, `wait_s` in each round, step or no step;
- `late`: the window is looked at after the KV blocks are allocated: where it is full they are given back, and allocated
  again in the loop's next round;
- `early`: the window is looked at before anything is allocated: what does not fit waits, and nothing else does.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import msgspec

from baton.core.events import PeerDown, Received, Send, each_of, one_of
from baton.core.executor import events as e
from baton.core.executor.machine import ExecutorCore
from baton.core.executor.sequence import Compute
from baton.core.ids import Peer, Role
from baton.core.session.node import Node
from baton.core.sim.fleet_run.parts import FleetWiring, Parts
from baton.core.sim.fleet_run.process import THREAD_EVENTS, LoopProcess
from baton.core.sim.scenario import ExecutorSpec
from baton.core.sim.wiring import HASH_KEY
from baton.core.wire import messages as m

WINDOWS = ("none", "late", "early")
LOOP_S = 1e-3  #: of a round of a loop that has nothing else to do than to look at the next receive


class WaitForBounce(msgspec.Struct, frozen=True):
    """The loop waits for bounce memory and does nothing else."""

    duration_s: float


class InlineLoop(LoopProcess):
    """A loop that waits where its machine says so. What has come over links meanwhile it hears before its device."""

    def __init__(self, *arguments: Any) -> None:
        env, own, node, turn, perform = arguments
        super().__init__(env, own, node, turn, self._perform_or_wait)
        self._others = perform

    def _perform_or_wait(self, _: LoopProcess, command: Any) -> None:
        if type(command) is WaitForBounce:
            self.occupy(command.duration_s)
        else:
            self._others(self, command)

    def _take(self) -> Any:
        for position, event in enumerate(self._inbox):
            if not isinstance(event, THREAD_EVENTS):
                del self._inbox[position]
                return event
        return super()._take()


class InlineCore(ExecutorCore):
    """A decode executor that sets up its receives in order, one in each round of its loop.

    One that is larger than the whole buffer goes alone.
    """

    def __init__(self, bounce_bytes: int, window: str, wait_s: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.num_rolled_back = 0  #: blocks that were allocated and given back because the window was full
        self._bounce_bytes = bounce_bytes
        self._window = window
        self._wait_s = wait_s
        self._held: deque[Received] = deque()

    def handle(self, event: Any, now: float) -> list[Any]:
        others = []
        for happened in each_of(event):
            if isinstance(happened, Received) and isinstance(happened.message, m.Decode):
                self._held.append(happened)
                continue
            if isinstance(happened, PeerDown):
                self._held.clear()
            others.append(happened)
        out = super().handle(one_of(others), now) if others else []
        if self._held and self._is_round(event):
            out = self._set_up_next(now) + out
        if self._held and not self.state.lanes[0]:
            self.next_wake = min(self.next_wake or now + LOOP_S, now + LOOP_S)
        return out

    def gauges(self) -> dict[str, float]:
        return super().gauges() | {"blocks_rolled_back_total": self.num_rolled_back}

    def _is_round(self, event: Any) -> bool:
        return not self.state.lanes[0] or any(isinstance(happened, e.StepDone) for happened in each_of(event))

    def _set_up_next(self, now: float) -> list[Any]:
        """The commands that this adds to the turn's, before them."""
        message = self._held[0].message
        if self._fits(message):
            return super().handle(self._held.popleft(), now)
        if self._window == "late":
            self.state.memory.pool.release(self.state.memory.pool.allocate(message.num_blocks))
            self.num_rolled_back += message.num_blocks
        return [WaitForBounce(self._wait_s)] if self._window == "none" else []

    def _fits(self, message: m.Decode) -> bool:
        layout = self.state.layout
        used = sum(transfer.num_blocks for transfer in self.state.incoming.values())
        wanted = layout.blocks_for(message.work.num_tokens)
        return not used or (used + wanted) * layout.block_bytes <= self._bounce_bytes


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
    def __init__(self, bounce_bytes: int, window: str, wait_s: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._settings = bounce_bytes, window, wait_s

    def executor(self, own: Peer, spec: ExecutorSpec) -> Node:
        shared = own, self._layout, spec.config, HASH_KEY
        if own.role is Role.PREFILL:
            return Node(own, LateCore(*shared), self._timing)
        if own.role is Role.DECODE:
            return Node(own, InlineCore(*self._settings, *shared), self._timing)
        return super().executor(own, spec)


def make(bounce_bytes: int, window: str = "none", wait_s: float = 0.0) -> Parts:
    """Raises TypeError for a window that there is not, or a wait without effect or of no length."""
    if window not in WINDOWS:
        raise TypeError(f"window: {window!r} is none of {', '.join(WINDOWS)}")
    wait_s = float(wait_s)
    if (window == "none") != (wait_s > 0):
        raise TypeError(f"wait_s: {wait_s:g}: the loop waits where there is no window, and only there")
    return Parts(process=InlineLoop, wiring=partial(InlineWiring, int(bounce_bytes), window, wait_s))
