"""Decode steps are counted by what makes them comparable (W15)."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.executor import events as ev
from tests.support.machines import ExecutorRig, prompt, unified, work


def done(rig: ExecutorRig, duration_s: float, padded_batch: int) -> None:
    """The oldest launched step is done, as a device says it."""
    result = rig.answer(rig.steps.popleft())
    rig.do(ev.StepDone(replace(result, duration_s=duration_s, padded_batch=padded_batch)))


def sums(rig: ExecutorRig) -> dict[tuple[int, bool], tuple[int, int, int, float]]:
    """(padded batch, mixed) → steps, sequences, activated, seconds."""
    return {
        tuple(key): (c.num_steps, c.num_sequences, c.num_activated, round(c.duration_s, 6))
        for key, c in rig.core.cohorts.by_key.items()
    }


def test_w15_each_decode_step_records_batch_padded_batch_activations_and_duration():
    rig = unified(num_queued_steps=1, token_budget=64)
    rig.run(1, work(prompt(8, 1), max_tokens=4))
    done(rig, 0.5, 0)  # a prompt alone is no decode step
    assert sums(rig) == {}
    rig.run(2, work(prompt(8, 2), max_tokens=3))
    done(rig, 0.01, 4)
    assert sums(rig) == {(4, False): (1, 1, 1, 0.01)}
    done(rig, 0.3, 4)  # decodes 1 and computes the prompt of 2
    assert sums(rig)[4, True] == (1, 1, 0, 0.3)
    done(rig, 0.02, 4)
    assert sums(rig)[4, False] == (2, 3, 2, 0.03)
    done(rig, 0.03, 1)
    assert sums(rig)[1, False] == (1, 1, 0, 0.03)


def test_w15_a_device_that_pads_nothing_is_counted_by_its_batch():
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(8, 1), max_tokens=2))
    done(rig, 0.5, 0)
    done(rig, 0.01, 0)
    assert sums(rig) == {(1, False): (1, 1, 1, 0.01)}
