"""What must hold of waits and holds as machines tell them: judged by their spans alone."""

from __future__ import annotations

from baton.core.events import Span
from baton.core.ids import Life
from baton.core.sim.env import Env
from baton.core.sim.process import Process
from baton.core.sim.scenario import Scenario

LATE_S = 1e-3  #: real timers come a little late; what is left of a wait travels in whole milliseconds


class SpanLaws:
    """Fed with every span that a process tells."""

    def __init__(self, env: Env, scenario: Scenario, fault_kinds: set[str]) -> None:
        self._env = env
        self._max_s = scenario.scheduler.prefix_wait_max_ms / 1000
        self._busy_loop_s = scenario.busy_loop_s
        self._is_on = scenario.scheduler.prefix_wait
        self._fault_kinds = fault_kinds
        self._waited_s: dict[int, float] = {}  #: for prefixes, by request
        self._placed: set[tuple[Life, int, int]] = set()  #: attempts that a scheduler has placed

    def tell(self, process: Process, span: Span) -> None:
        """What lasted ended no earlier than it began, and is over."""
        reason = "" if span.reason is None else f" {span.reason.name}"
        self._env.counters[f"span {process.role.name.lower()}: {span.what}{reason}"] += 1
        if not span.since <= span.ended_at <= self._env.time.now + process.clock_offset_s:
            self._env.fail("what lasts has a beginning and an end", f"{process.identity}: {span}")
        attempt = (process.life, span.request_id, span.attempt)
        if span.what == "placement":
            self._placed.add(attempt)
        elif span.what == "prefix wait":
            self._on_prefix_wait(process, span, attempt)
        elif span.what == "shared blocks":
            self._on_shared_blocks(process, span)

    def _on_shared_blocks(self, process: Process, span: Span) -> None:
        """P14, C28: it says until when it waits, and waits no longer."""
        self._env.counters[f"shared blocks {span.ended_by}"] += 1
        if span.ended_at > span.until + LATE_S + 2 * self._busy_loop_s and "stop" not in self._fault_kinds:
            self._env.fail("waits end in time", f"{process.identity}: {span}")

    def _on_prefix_wait(self, process: Process, span: Span, attempt: tuple[Life, int, int]) -> None:
        """P3, P10: nobody waits for a prefix who holds something, nor longer than once its time, however often."""
        self._env.counters[f"prefix wait {span.ended_by}"] += 1
        if attempt in self._placed or not self._is_on:
            self._env.fail("who waits holds nothing", f"{process.identity}: {span}")
        waited_s = self._waited_s.get(span.request_id, 0.0) + span.ended_at - span.since
        self._waited_s[span.request_id] = waited_s
        if waited_s > self._max_s + LATE_S and "stop" not in self._fault_kinds:
            self._env.fail("waits end in time", f"{process.identity}: {waited_s:.4f} s with {span}")
