"""A device that only takes time: plans in order, one after the other, each as long as its profile says. Its tokens are
those that the load planned, so that a later turn of a session finds its answer in the caches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from baton.core.executor.events import StepDone
from baton.core.executor.steps import ItemResult, NewSequence, SampledToken, StepItem, StepPlan, StepResult
from baton.core.sim.env import Env
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.records import StepRecord
from baton.core.sim.step_time.features import Features
from baton.core.sim.step_time.model import StepModel

Record = Callable[[StepRecord], None]


class _Sequence:
    """What the device knows of a sequence: enough to answer each step with the same objects."""

    __slots__ = ("choice", "decoded", "num_known", "token")

    def __init__(self, new: NewSequence) -> None:
        self.choice = new.choice
        self.token = new.sampling.seed  #: the load says it so
        self.num_known = len(new.tokens) // 4  #: tokens before the first that it decodes
        self.decoded = ItemResult(new.seq_id, 1, (SampledToken(new.choice, self.token),))


class TimedDevice:
    """Of one executor."""

    def __init__(self, process: LoopProcess, model: StepModel, record: Record, notice_s: float = 0.0) -> None:
        self.process = process
        self.num_steps = 0
        self.busy_s = 0.0
        self.queue: deque[StepPlan] = deque()  #: launched and not done; the first is being computed
        self._env: Env = process.env
        self._model = model
        self._record = record
        self._notice_s = notice_s
        self._gauss = process.env.rng.gauss
        self._is_noisy = any(kind is not None and kind.noise for kind in (model.prefill, model.decode, model.mixed))
        self._sequences: dict[int, _Sequence] = {}

    @property
    def is_idle(self) -> bool:
        return not self.queue

    def launch(self, plan: StepPlan) -> None:
        """The loop hands the plan over."""
        self.queue.append(plan)
        if len(self.queue) == 1:
            self._begin()

    def _begin(self) -> None:
        plan = self.queue[0]
        features, results = self._compute(plan)
        duration_s = self.duration_s(features)
        self._record(StepRecord(self.process.name, self._env.time.now, duration_s, features))
        self.num_steps += 1
        self.busy_s += duration_s
        result = StepResult(plan.step_id, results, duration_s, features.decodes)
        self._env.time.after(duration_s, self._finish, result)

    def duration_s(self, features: Features) -> float:
        """What a step of this kind takes now."""
        return self._model.duration_s(features, self._gauss(0.0, 1.0) if self._is_noisy else 0.0)

    def _finish(self, result: StepResult) -> None:
        self.queue.popleft()
        if self.queue:
            self._begin()
        if self._notice_s:
            self._env.time.after(self._notice_s, self.process.report, StepDone(result))
        else:
            self.process.report(StepDone(result))

    def _compute(self, plan: StepPlan) -> tuple[Features, tuple[ItemResult, ...]]:
        sequences = self._sequences
        for seq_id in plan.dropped:
            sequences.pop(seq_id, None)
        for new in plan.new:
            sequences[new.seq_id] = _Sequence(new)
        results: list[ItemResult] = []
        tokens = prompts = decodes = context = rows = 0
        attention = 0.0
        for item in plan.items:
            sequence, count = sequences[item.seq_id], item.num_tokens
            if count == 1 and item.start >= sequence.num_known:
                decodes += 1
                context += item.start + 1
                rows += 1
                results.append(sequence.decoded)
                continue
            prompts += 1
            tokens += count
            attention += count * (item.start + count / 2)
            rows += item.num_samples
            results.append(_prompt_result(sequence, item))
        return Features(tokens, attention, prompts, decodes, context, rows), tuple(results)


def _prompt_result(sequence: _Sequence, item: StepItem) -> ItemResult:
    first = sequence.choice
    sampled = tuple([SampledToken(first + number, sequence.token) for number in range(item.num_samples)])
    return ItemResult(item.seq_id, item.num_tokens, sampled)
