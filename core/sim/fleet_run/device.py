"""A device that only takes time: the plans of a lane in order, one after the other, each as long as its profile says.
Its tokens are those that the load planned, so that a later turn of a session finds its answer in the caches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mypy_extensions import mypyc_attr

from baton.core.executor.events import StepAdvanced, StepDone
from baton.core.executor.steps import ItemResult, NewSequence, SampledToken, StepItem, StepPlan, StepResult
from baton.core.layout import NUM_PLANES, KvLayout
from baton.core.sim.env import Env
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.records import StepRecord
from baton.core.sim.step_time.features import Features
from baton.core.sim.step_time.model import StepModel

Record = Callable[[StepRecord], None]


class _Sequence:
    """What the device knows of a sequence."""

    __slots__ = ("choice", "first_decoded", "num_computed", "token")

    def __init__(self, new: NewSequence) -> None:
        self.choice = new.choice
        self.token = new.sampling.seed  #: the load says it so
        #: first position that counts as decoded: of what is known the last token may be all that is to be computed
        self.first_decoded = len(new.tokens) // 4 - 1
        self.num_computed = self.first_decoded  #: positions that have KV, before its lane's batch has run


class _Batch:
    """Sequences that decode together. While they stay the same ones, a step adds one position to each: what it gives
    are the same tokens, and how long each is by now is looked at when the batch changes."""

    __slots__ = ("num_context", "num_steps", "seq_ids", "sequences", "tokens")

    def __init__(self, seq_ids: tuple[int, ...], sequences: list[_Sequence]) -> None:
        self.seq_ids = seq_ids
        self.sequences = sequences
        self.tokens = tuple([sequence.token for sequence in sequences])
        self.num_context = sum([sequence.num_computed for sequence in sequences])  #: after its steps so far
        self.num_steps = 0

    def step(self) -> None:
        self.num_steps += 1
        self.num_context += len(self.sequences)

    def end(self) -> None:
        for sequence in self.sequences:
            sequence.num_computed += self.num_steps


class Lane:
    """Plans that were launched in one lane and are not done; the first is being computed."""

    __slots__ = ("batch", "began_at", "features", "left_s", "number", "queue", "results", "serial", "told", "whole_s")

    def __init__(self, number: int) -> None:
        self.number = number
        self.queue: deque[StepPlan] = deque()
        self.began_at = 0.0  #: the first one's
        self.left_s = 0.0  #: that it would still take with the device for itself
        self.whole_s = 0.0  #: the same, when it began
        self.told: deque[int] = deque()  #: KV layers after which it is still to be told how far it is
        self.features = Features()
        self.batch = _Batch((), [])
        self.results: tuple[ItemResult, ...] = ()  #: of parts of prompts
        self.serial = 0  #: counts what was set to be its end; earlier ones are void


@mypyc_attr(allow_interpreted_subclasses=True)  # parts of a scenario may be such
class TimedDevice:
    """Of one executor. Lanes that compute at once slow each other down, and so do devices of one machine, as the
    profile says."""

    def __init__(self, process: LoopProcess, model: StepModel, record: Record, notice_s: float = 0.0) -> None:
        self.process = process
        self.lanes: dict[int, Lane] = {}
        self.num_steps = 0
        self.busy_s = 0.0  #: some lane computed
        self._env: Env = process.env
        self._model = model
        self._record = record
        self._notice_s = notice_s
        self._gauss = process.env.rng.gauss
        self._is_noisy = model.is_noisy
        self._sequences: dict[int, _Sequence] = {}
        self._computing: list[Lane] = []
        self._machine: list[TimedDevice] = [self]
        self._was_idle = True  #: when the others of the machine were last told
        self._counted_at = 0.0  #: until when `left_s` and `busy_s` are counted
        self._layout: KvLayout | None = None  #: if it tells how far a step's KV is written

    @property
    def is_idle(self) -> bool:
        return not self._computing

    def launch(self, plan: StepPlan) -> None:
        """The loop hands the plan over."""
        lane = self.lanes.get(plan.lane)
        if lane is None:
            lane = self.lanes[plan.lane] = Lane(plan.lane)
        lane.queue.append(plan)
        if len(lane.queue) == 1:
            self._count()
            self._begin(lane)
            self._set_ends()

    def tell_progress(self, layout: KvLayout) -> None:
        """From now on: after the layers that the layout says, each of which takes as long as another."""
        self._layout = layout

    def share(self, devices: list[TimedDevice]) -> None:
        """All on this one's machine, itself among them: a step takes longer while another one computes."""
        self._machine = devices

    def duration_s(self, features: Features) -> float:
        """What a step of this kind takes now, with the device for itself."""
        return self._model.duration_s(features, self._gauss(0.0, 1.0) if self._is_noisy else 0.0)

    # ---- inside

    def _begin(self, lane: Lane) -> None:
        lane.features, lane.results = self._compute(lane.queue[0], lane)
        lane.left_s = lane.whole_s = self.duration_s(lane.features)
        if self._layout and lane.features.prompts and _completes_a_block(lane.queue[0], self._layout.block_size):
            lane.told.extend(self._layout.layers_to_tell())
        lane.began_at = self._env.time.now
        self._computing.append(lane)

    def _count(self) -> None:
        """Whatever computes on the machine has come on since."""
        for device in self._machine:
            device._count_own()

    def _count_own(self) -> None:
        now = self._env.time.now
        passed_s, self._counted_at = now - self._counted_at, now
        if self._computing:
            self.busy_s += passed_s
            for lane in self._computing:
                lane.left_s -= passed_s / self._slowdown(lane)

    def _slowdown(self, lane: Lane) -> float:
        """Of what the lane computes now."""
        slowdown = self._model.lane_slowdown if len(self._computing) > 1 else 1.0
        if len(self._machine) > 1 and any([device._computing for device in self._machine if device is not self]):
            slowdown *= self._model.neighbour_slowdown(lane.features.kind)
        return slowdown

    def _set_ends(self) -> None:
        self._set_own_ends()
        if len(self._machine) > 1 and self._was_idle != self.is_idle:
            self._was_idle = self.is_idle
            for device in self._machine:
                if device is not self:
                    device._set_own_ends()

    def _set_own_ends(self) -> None:
        for lane in self._computing:
            lane.serial += 1
            self._env.time.after(max(lane.left_s, 0.0) * self._slowdown(lane), self._finish, lane, lane.serial)
            self._set_next_word(lane)

    def _set_next_word(self, lane: Lane) -> None:
        if self._layout is not None and lane.told:
            left_s = lane.left_s - lane.whole_s * (1 - lane.told[0] / self._layout.num_kv_layers)
            self._env.time.after(max(left_s, 0.0) * self._slowdown(lane), self._tell, lane, lane.serial)

    def _tell(self, lane: Lane, serial: int) -> None:
        if serial == lane.serial:
            self._count()
            self._report(StepAdvanced(lane.queue[0].step_id, lane.told.popleft() * NUM_PLANES))
            self._set_next_word(lane)

    def _finish(self, lane: Lane, serial: int) -> None:
        if serial != lane.serial:
            return
        self._count()
        self._computing.remove(lane)
        plan, took_s = lane.queue.popleft(), self._env.time.now - lane.began_at
        self.num_steps += 1
        self._record(StepRecord(self.process.name, lane.began_at, took_s, lane.features, lane.number))
        decoded, num_context = (lane.batch.tokens, lane.batch.num_context) if plan.decodes else ((), 0)
        result = StepResult(plan.step_id, lane.results, took_s, lane.features.decodes, decoded, num_context)
        if lane.queue:
            self._begin(lane)
        self._set_ends()
        self._report(StepDone(result))

    def _report(self, event: StepAdvanced | StepDone) -> None:
        if self._notice_s:
            self._env.time.after(self._notice_s, self.process.report, event)
        else:
            self.process.report(event)

    def _compute(self, plan: StepPlan, lane: Lane) -> tuple[Features, tuple[ItemResult, ...]]:
        sequences = self._sequences
        for seq_id in plan.dropped:
            sequences.pop(seq_id, None)
        for new in plan.new:
            sequences[new.seq_id] = _Sequence(new)
        results: list[ItemResult] = []
        tokens = prompts = context = rows = 0
        attention = 0.0
        for item in plan.items:
            sequence, start, count = sequences[item.seq_id], item.start, item.num_tokens
            sequence.num_computed = start + count
            results.append(_prompt_result(sequence, item))
            if count == 1 and start >= sequence.first_decoded:
                context += start + 1
                continue
            prompts += 1
            tokens += count
            attention += count * (start + count / 2)
            rows += item.num_samples
        decodes = len(results) - prompts + len(plan.decodes)
        if plan.decodes:
            context += self._decode(lane, plan.decodes)
        return Features(tokens, attention, prompts, decodes, context, rows + decodes), tuple(results)

    def _decode(self, lane: Lane, seq_ids: tuple[int, ...]) -> int:
        """One token of each; returns how many positions they have after it, all together."""
        if seq_ids is not lane.batch.seq_ids:
            lane.batch.end()
            lane.batch = _Batch(seq_ids, [self._sequences[seq_id] for seq_id in seq_ids])
        lane.batch.step()
        return lane.batch.num_context


def _prompt_result(sequence: _Sequence, item: StepItem) -> ItemResult:
    first = sequence.choice
    sampled = tuple([SampledToken(first + number, sequence.token) for number in range(item.num_samples)])
    return ItemResult(item.seq_id, item.num_tokens, sampled)


def _completes_a_block(plan: StepPlan, block_size: int) -> bool:
    """Else there is nothing to send of what it computes."""
    return any(item.start // block_size < (item.start + item.num_tokens) // block_size for item in plan.items)
