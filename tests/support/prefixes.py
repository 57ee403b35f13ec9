"""Prompts that begin alike, and a scheduler that has some of them wait."""

from __future__ import annotations

from baton.core.wire import messages as m
from tests.support.machines import prompt, work
from tests.support.scheduling import SchedulerRig, unified_of

SYSTEM = prompt(32, 49)  #: eight blocks that many prompts begin with


def ask(number: int, num_own: int = 4, shared: list[int] = SYSTEM, **fields):
    return work([*shared, *prompt(num_own, number % 48)], max_tokens=4, **fields)


def publish(rig: SchedulerRig, peer, asked: m.Work, num_blocks: int, first: int = 0):
    """The executor has computed these blocks of the prompt."""
    return rig.hear(peer, m.CacheChanged(asked.hashes[16 * first : 16 * num_blocks], b""))


def counted(rig: SchedulerRig, name: str) -> float:
    return rig.core.gauges().get(f"{name}_total", 0)


def waiting(rig: SchedulerRig) -> float:
    return rig.core.gauges()["prefix_waiting"]


def roomy(rig: SchedulerRig, **capacity: int):
    return unified_of(rig, **({"num_blocks": 8192, "num_slots": 512, "token_budget": 64} | capacity))


def one_waits(rig: SchedulerRig, **capacity: int):
    """Number 1 computes the shared blocks, number 2 waits for them."""
    unified = roomy(rig, **capacity)
    rig.submit(1, ask(1))
    rig.submit(2, ask(2))
    assert (rig.where(1), rig.where(2), waiting(rig)) == (["unified"], [], 1)
    return unified
