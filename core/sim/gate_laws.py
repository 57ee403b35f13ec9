"""What must hold of steps of decodes and of prompts, judged at their launch by what the executor's books say then.

Where the books after a turn cannot tell what they were at the decision, the doubt is the machine's.
"""

from __future__ import annotations

from typing import Any

from baton.core.executor.events import Launch
from baton.core.executor.steps import StepItem
from baton.core.ids import Life
from baton.core.sim.env import Env
from baton.core.sim.process import Process

EXACT_S = 1e-9  #: for sums that are done in another order


class _Life:
    """What one executor launched so far."""

    def __init__(self) -> None:
        self.decode_steps: list[int] = []  #: since the last step of prompts
        self.had_prompts = False
        self.chunk_at: dict[int, float] = {}  #: sequence → when a part of its prompt was last launched


class GateLaws:
    """Fed with every step that an executor launches."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._lives: dict[Life, _Life] = {}

    def launch(self, process: Process, command: Launch) -> None:
        """The step goes to the device."""
        assert process.device is not None
        machine: Any = process.node.machine
        state = machine.state
        if state.config.step_mode == "alternate" and not state.stopped:
            self._judge(process, state, command)
        process.device.launch(command.plan)

    def _judge(self, process: Process, state: Any, command: Launch) -> None:
        plans = [command.plan, *(step.plan for step in state.steps)]
        named = {seq_id for plan in plans for seq_id in (*plan.decodes, *[item.seq_id for item in plan.items])}
        gone = named - state.sequences.keys()
        if gone:
            self._env.fail("steps are of sequences that are there", f"{process.identity}: {gone} in {command.plan}")
        life = self._lives.setdefault(process.life, _Life())
        chunks = command.plan.items
        if any(_work_of(state, item).num_tokens < item.start + item.num_tokens for item in chunks):
            self._env.fail("items are parts of prompts", f"{process.identity}: {command.plan}")
        if chunks and command.plan.decodes:
            self._env.fail("steps alternate", f"{process.identity}: {command.plan}")
        if chunks:
            self._judge_prompts(process, state, life, command, chunks)
        else:
            self._judge_decodes(process, state, command)
            life.decode_steps.append(command.plan.step_id)

    def _judge_prompts(
        self, process: Process, state: Any, life: _Life, command: Launch, chunks: tuple[StepItem, ...]
    ) -> None:
        """C9: enough decode steps ran since the last one, or a bound holds."""
        in_flight = {step.plan.step_id for step in state.steps}
        num_ran = sum(1 for step_id in life.decode_steps if step_id not in in_flight)
        self._env.counters["steps of prompts, where steps alternate"] += 1
        if life.had_prompts and num_ran < state.config.protect_steps and state.config.protect == "fixed":
            self._env.counters["protections that ended early"] += 1
            if not _must_fire(state, life, chunks, _prompts_after(state, command.plan.step_id)):
                self._env.fail("decode is protected", f"{process.identity}: {num_ran} steps ran before {command.plan}")
        life.decode_steps, life.had_prompts = [], True
        for item in chunks:
            life.chunk_at[item.seq_id] = state.now

    def _judge_decodes(self, process: Process, state: Any, command: Launch) -> None:
        """C8: the first prompt in order is not kept back once it has waited as long as it may."""
        first = state.queue.first_fit(0, 0)
        later = [step for step in state.steps if step.plan.step_id > command.plan.step_id]
        if first < 0 or any(step.plan.items for step in later):
            return
        self._env.counters["steps of decodes that kept prompts back"] += 1
        group = state.sequences[first].group
        if group.marks.at["admitted"] == state.now:
            return  # perhaps it came after the decision, in the same turn
        if state.now > _overdue_at(state, group) + EXACT_S:
            since = group.marks.at["admitted"]
            self._env.fail("nobody is kept back for ever", f"{process.identity}: {group.work_id} waits since {since}")


def _must_fire(state: Any, life: _Life, chunks: tuple[StepItem, ...], later: set[int]) -> bool:
    """Whether a bound may have held at the decision for these parts of prompts. `later`: sequences of whose prompts a
    part was launched after it, in the same turn."""
    config, now = state.config, state.now
    mine = {item.seq_id for item in chunks}
    new = mine | later
    batch = [s for s in state.running.values() if s.seq_id not in new and s.group.marks.at.get("activated") != now]
    if len(batch) < config.hold_batch_low or not any(s.can_decode for s in batch):
        return True
    if not any(_has_room(state, s) for s in batch):
        return True
    groups = [state.sequences[item.seq_id].group for item in chunks]
    if any(now >= _overdue_at(state, group) - EXACT_S for group in groups):
        return True
    rests = [item.seq_id for item in chunks if item.seq_id in life.chunk_at]
    if any(now >= life.chunk_at[seq_id] + config.hold_partial_ms / 1e3 - EXACT_S for seq_id in rests):
        return True
    pool = state.memory.pool
    own = sum(len(state.sequences[seq_id].block_ids) for seq_id in mine)
    return bool(rests) and pool.num_blocks - pool.num_free + own > config.hold_kv_high * pool.num_blocks


def _prompts_after(state: Any, step_id: int) -> set[int]:
    """Sequences of whose prompts a part is in a later step."""
    return {item.seq_id for step in state.steps if step.plan.step_id > step_id for item in step.plan.items}


def _has_room(state: Any, sequence: Any) -> bool:
    """Whether it could decode: its next position lies in a block that it holds, or there is one for it."""
    has_block = sequence.num_scheduled < len(sequence.block_ids) * state.layout.block_size
    return bool(sequence.can_decode and (has_block or state.memory.growable > 0))


def _overdue_at(state: Any, group: Any) -> float:
    return float(group.marks.at["admitted"] - group.waited_s + state.config.hold_max_ms / 1e3)


def _work_of(state: Any, item: StepItem) -> Any:
    return state.sequences[item.seq_id].group.work
