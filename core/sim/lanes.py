"""The compute threads of a simulated device: a launch queue of two for each lane of steps, and how long steps last.

Steps of one lane are computed in order. Those of two lanes run beside each other, in any order, each slower while both
do. Memory is read and written at one moment of a step; from then on the device may say, in parts, what is written.
Until the machine has heard that a step is over, no plan of the other lane may touch what it writes, nor write what it
reads, nor name its sequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from baton.core.executor.events import StepAdvanced, StepDone, StepFailed
from baton.core.executor.steps import PREFILL_LANE, StepPlan, StepResult
from baton.core.sim.process import Process, ThreadMailbox
from baton.core.sim.step_time.fuzzed import StepTime

NUM_LANES = PREFILL_LANE + 1
PROVEN_STAGES = ("launch", "collect")  #: failures after which the step's work has ended for certain
SHARED_STRETCH = 1.7  #: how much longer a step takes while one of the other lane runs too


class Footprint(NamedTuple):
    """What a plan names and touches."""

    plan: StepPlan
    seq_ids: frozenset[int]
    reads: frozenset[int]  #: blocks
    writes: frozenset[int]


class _Running:
    __slots__ = (
        "after_s",
        "duration_s",
        "is_computed",
        "left_s",
        "plan",
        "result",
        "since",
        "stage",
        "stretch",
        "turn",
    )

    def __init__(self, plan: StepPlan, stage: str, duration_s: float, early: float, now: float) -> None:
        self.plan = plan
        self.stage = stage  #: at which it fails; empty: it does not
        self.duration_s = duration_s  #: alone
        self.left_s = duration_s
        self.after_s = duration_s * (1.0 - early)  #: what is left when it touches memory
        self.since = now  #: when `left_s` was right
        self.stretch = 1.0
        self.turn = 0  #: events made for an older turn mean nothing
        self.is_computed = False
        self.result: StepResult | None = None


class Lanes:
    """`compute(plan, duration_s)` gives a step's result, at the moment at which it touches memory. The device says of
    fewer than `num_planes` planes that they are written; 0: it says nothing."""

    def __init__(
        self,
        process: Process,
        step_time: StepTime,
        compute: Callable[[StepPlan, float], StepResult],
        num_planes: int = 0,
    ) -> None:
        self.slow_factor = 1.0  #: fault: steps last this much longer
        self.failures: deque[str] = deque()  #: faults: the stages at which the next steps fail
        self.held: dict[int, Footprint] = {}  #: by step_id: plans whose end the machine has not heard
        self._heard: dict[int, int] = {}  #: by step_id, of those: planes that the machine has heard of as written
        self._num_planes = num_planes
        self.is_broken = False  #: a step has failed: none gives a result any more
        self._process = process
        self._env = process.env
        self._step_time = step_time
        self._compute = compute
        self._mailboxes = [ThreadMailbox(process) for _ in range(NUM_LANES)]
        self._queues: list[deque[StepPlan]] = [deque() for _ in range(NUM_LANES)]
        self._running: list[_Running | None] = [None] * NUM_LANES
        self._last_steps = [0] * NUM_LANES

    @property
    def is_idle(self) -> bool:
        return not any(self._queues)

    def queued(self) -> list[StepPlan]:
        """Plans that have not ended, in order of their launch for each lane."""
        return [plan for queue in self._queues for plan in queue]

    # ---- from the loop

    def launch(self, footprint: Footprint) -> None:
        """The lane's thread takes the plan; it may have to wait for the one before."""
        plan = footprint.plan
        who = self._process.identity
        num_held = 1 + sum(held.plan.lane == plan.lane for held in self.held.values())
        if num_held > 2:
            self._env.fail("launch queue of two", f"{who} has {num_held} steps in lane {plan.lane} of its device")
        if plan.step_id <= self._last_steps[plan.lane]:
            self._env.fail("steps in order", f"step {plan.step_id} after {self._last_steps[plan.lane]}")
        self._last_steps[plan.lane] = plan.step_id
        for held in self.held.values():
            if held.plan.lane != plan.lane:
                self._check_apart(footprint, held)
        self.held[plan.step_id] = footprint
        self._queues[plan.lane].append(plan)
        if self._running[plan.lane] is None:
            self._begin(plan.lane)

    def hear(self, event: StepDone | StepFailed | StepAdvanced) -> None:
        """The machine hears how far a step is, or of its end."""
        if isinstance(event, StepAdvanced):
            self._heard[event.step_id] = event.num_planes
            return
        step_id = event.result.step_id if isinstance(event, StepDone) else event.step_id
        self.held.pop(step_id, None)
        self._heard.pop(step_id, None)

    def num_written(self, block: int) -> int | None:
        """Of a block that steps write whose end the machine has not heard, how many planes it may take for written."""
        writing = [step_id for step_id, held in self.held.items() if block in held.writes]
        return min([self._heard.get(step_id, 0) for step_id in writing], default=None)

    def _check_apart(self, plan: Footprint, held: Footprint) -> None:
        shared = plan.writes & (held.reads | held.writes) | plan.reads & held.writes
        named = held.seq_ids & (plan.seq_ids | set(plan.plan.dropped))
        if shared or named:
            self._env.fail(
                "lanes apart",
                f"step {plan.plan.step_id} of {self._process.identity} meets step {held.plan.step_id} of the other "
                f"lane in blocks {sorted(shared)}, sequences {sorted(named)}",
            )

    # ---- in the lane's thread

    def _begin(self, lane: int) -> None:
        plan = self._queues[lane][0]
        stage = self.failures.popleft() if self.failures else ""
        if self.is_broken:
            stage = "launch"
        duration_s = self._step_time.of(plan, self._env.random()) * self.slow_factor
        self._running[lane] = _Running(plan, stage, duration_s, self._env.random(), self._env.time.now)
        self._pace()

    def _pace(self) -> None:
        """A step has begun or ended: every running one goes on at the pace that it has from now on."""
        now = self._env.time.now
        running = [step for step in self._running if step is not None]
        stretch = SHARED_STRETCH if len(running) > 1 else 1.0
        self._env.counters["steps beside each other"] += len(running) > 1
        for step in running:
            if step.stretch != stretch or step.turn == 0:
                step.left_s -= (now - step.since) / step.stretch
                step.since, step.stretch = now, stretch
                self._go_on(step)

    def _go_on(self, step: _Running) -> None:
        step.turn += 1
        to_go_s = step.left_s - (0.0 if step.is_computed else step.after_s)
        call = self._finish if step.is_computed else self._execute
        self._env.time.at(step.since + to_go_s * step.stretch, self._process.run, call, step, step.turn)

    def _execute(self, step: _Running, turn: int) -> None:
        """The moment at which the step reads and writes memory; its end comes later."""
        if turn != step.turn:
            return
        if step.stage:
            self.is_broken = True
            self._env.counters[f"step failed at {step.stage}"] += 1
        if step.stage in ("", "wait", "collect"):
            step.result = self._compute(step.plan, step.duration_s)
            self._tell_progress(step.plan)
        step.is_computed = True
        self._go_on(step)

    def _tell_progress(self, plan: StepPlan) -> None:
        if self._num_planes > 1 and (plan.items or plan.decodes):
            most = self._num_planes - 1
            for num_planes in sorted({1 + plan.step_id % most, most}):
                self._mailboxes[plan.lane].post(StepAdvanced(plan.step_id, num_planes))

    def _finish(self, step: _Running, turn: int) -> None:
        if turn != step.turn:
            return
        plan, stage = step.plan, step.stage
        self._queues[plan.lane].popleft()
        self._running[plan.lane] = None
        if stage or step.result is None:
            self._process.exit_cause = f"step failed at {stage}"
            failed = StepFailed(plan.step_id, stage, stage in PROVEN_STAGES, "injected")
            self._mailboxes[plan.lane].post(failed)
        else:
            self._mailboxes[plan.lane].post(StepDone(step.result))
        if self._queues[plan.lane]:
            self._begin(plan.lane)
        else:
            self._pace()
