"""Looks at machines from outside, as an operator does: books, `/metrics`, readiness."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from baton.core.executor import walk
from baton.core.ids import Life
from baton.core.sim.env import Env, Violation
from baton.core.sim.process import Process


class Observer:
    """Asks questions that change nothing. Counters (`…_total`) never fall in a life, other values are not negative."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._totals: dict[Life, dict[str, float]] = {}

    def look(self, process: Process) -> None:
        """The machine's own invariants, and what it shows."""
        process.node.check_invariants()
        machine: Any = process.node.machine
        before = self._totals.setdefault(process.life, {})
        for name, value in machine.gauges().items():
            if not math.isfinite(value) or value < before.get(name, 0.0):
                self._env.fail("metrics", f"{process.identity}: {name} = {value}, before {before.get(name, 0.0)}")
            if name.endswith("_total"):
                before[name] = value
        self._look_at_waits(process, machine.gauges())
        if process.role.is_executor:
            self._look_for_idling(process, machine.state)
        machine.readiness()

    def _look_at_waits(self, process: Process, gauges: dict[str, float]) -> None:
        """P5, P15: a prefix that is waited for is computed by somebody, or lies where others are computed."""
        if gauges.get("prefix_waiting") and not gauges["placed"]:
            self._env.fail("nobody waits for nobody", f"{process.identity}: {gauges}")

    def _look_for_idling(self, process: Process, state: Any) -> None:
        """C8, W10: nothing is kept back while the device has nothing to do, and no sequence from the batch for ever."""
        if not state.steps and not state.stopped and walk.has_demand(state):
            self._env.fail("no idling", f"{process.identity}: prompts wait, nothing is with the device")
        for arrival in state.joining.waiting.values():
            kept_s = state.now - arrival.sequence.group.marks.at["landed"]
            if kept_s > state.config.join_max_ms / 1e3 + 1e-9:
                self._env.fail("who has landed joins in time", f"{process.identity}: {kept_s:.4f} s")

    def look_at_all(self, processes: Iterable[Process]) -> None:
        """Every law that can be checked at any moment."""
        for process in processes:
            try:
                self.look(process)
            except Violation:
                raise
            except Exception as error:
                raise Violation("invariants", f"{process.identity}: {error!r:.1000}") from error

    def unready(self, processes: Iterable[Process]) -> dict[str, str]:
        """Who says that a request would not work now, and why."""
        reasons = {process.identity: process.node.machine.readiness() for process in processes}
        return {name: reason for name, reason in reasons.items() if reason}
