"""A unified executor whose steps alternate, with sequences that decode already; what its steps are of."""

from __future__ import annotations

from typing import Any

from baton.core.events import Wake
from baton.core.executor.events import Drain, StepDone
from baton.core.wire import messages as m
from tests.support.machines import SCHEDULER, ExecutorRig, prompt, unified, work


def alternating(num_decoding: int = 2, **knobs: Any) -> ExecutorRig:
    """Sequences 1 to `num_decoding` decode, with one step launched at a time; nothing is held or protected unless asked
    for, and no bound but the ones asked for is near. Blocks are free for copies and for growth."""
    quiet: dict[str, Any] = {"step_mode": "alternate", "hold": "off", "protect_steps": 0, "num_queued_steps": 1}
    quiet |= {"num_blocks": 512, "token_budget": 32, "long_prefill_tokens": 32}
    holds, protects = knobs.get("hold", "off") != "off", bool(knobs.get("protect_steps"))
    if holds or protects:
        quiet |= {"hold_batch_low": 0, "hold_kv_high": 1.0, "hold_max_ms": 60_000.0, "hold_partial_ms": 50_000.0}
    if protects:
        quiet["protect"] = "fixed"
    if holds:
        quiet["hold_stall_ms"] = 40_000.0
    rig = unified(**(quiet | knobs))
    rig.do(Drain())
    rig.hear(SCHEDULER, m.Returned(250))
    for number in range(1, num_decoding + 1):
        rig.run(number, work(prompt(4, number), max_tokens=200), left_ms=10_000_000)
        rig.now += 70.0  # it has waited as long as it may
        while rig.sequence_of(number).num_scheduled <= 4:
            rig.step_done()
    while rig.state.gate.protect_left:
        rig.step_done()
    rig.do(Wake())
    rig.state.counters.clear()
    rig.state.gate.itl_s = 0.0
    return rig


def add(rig: ExecutorRig, number: int, num_tokens: int) -> None:
    """A prompt of so many tokens comes, with blocks of its own."""
    rig.run(number, work(prompt(num_tokens, number), max_tokens=20))


def count(rig: ExecutorRig, name: str) -> int:
    return int(rig.state.counters[name])


def kind(rig: ExecutorRig) -> str:
    """The newest launched step: `D` of decodes, `P` of prompts, `M` of both, `-` if none is with the device."""
    if not rig.state.steps:
        return "-"
    step = rig.state.steps[-1]
    if step.num_decodes == 0:
        return "P"
    return "M" if step.plan.items else "D"


def kinds(rig: ExecutorRig, count: int, step_s: float = 1 / 64) -> str:
    """The kinds of the next steps, the one with the device first, each `step_s` long."""
    found = ""
    for _ in range(count):
        found += kind(rig)
        rig.now += step_s
        rig.step_done()
    return found


def done_after(rig: ExecutorRig, after_s: float) -> str:
    """The oldest step is done that much later; the kind of the one that follows."""
    rig.do(StepDone(rig.answer(rig.steps.popleft())), after_s)
    return kind(rig)
