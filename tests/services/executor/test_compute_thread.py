"""The compute thread: results in order, what is proven when something fails, and no duty but the device."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from baton.core.errors import InvariantViolated
from baton.core.executor.events import StepDone, StepFailed
from baton.core.executor.steps import NewSequence, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.compute_thread import ComputeThread
from tests.services.executor.faulty_device import FaultyDevice

HANG_LIMIT_S = 30


class Bench:
    def __init__(self) -> None:
        self.device = FaultyDevice()
        self.events: queue.Queue[Any] = queue.Queue()
        self.crashes: list[BaseException] = []
        self.thread = ComputeThread(self.device, self.events.put, self.crashes.append)
        self.thread.start()

    def next(self) -> Any:
        return self.events.get(timeout=HANG_LIMIT_S)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.device.may_launch.set()
    made.device.is_finished.set()
    made.thread.stop()
    assert not made.thread.is_alive
    assert made.device.is_closed
    assert made.crashes == []


def prefill(step_id: int) -> StepPlan:
    """Three tokens of a new sequence, and one sample."""
    new = NewSequence(step_id, bytes(12), 3, SamplingParams(max_tokens=9), 0)
    return StepPlan(step_id, (), (new,), (), (StepItem(step_id, 0, 3, 1, (step_id % 16).to_bytes(4, "little")),))


def test_steps_are_done_in_order_and_proven(bench: Bench) -> None:
    for step in range(1, 9):
        bench.thread.submit(prefill(step))
        event = bench.next()
        assert isinstance(event, StepDone)
        assert event.result.step_id == step
    assert bench.thread.num_launched == bench.thread.num_proven == 8


def test_a_pending_step_does_not_keep_the_next_one_from_being_launched(bench: Bench) -> None:
    bench.device.is_pending = True
    bench.thread.submit(prefill(1))
    bench.thread.submit(prefill(2))
    while bench.device.calls.count("query") < 2:
        assert bench.events.empty()
    bench.device.is_finished.set()
    assert [bench.next().result.step_id for _ in range(2)] == [1, 2]


def test_h6_and_h15_a_blocked_launch_blocks_nobody_else(bench: Bench) -> None:
    bench.device.may_launch.clear()
    bench.thread.submit(prefill(1))
    assert bench.device.in_launch.wait(HANG_LIMIT_S)
    bench.thread.submit(prefill(2))  # returns although the launch before it does not
    assert bench.thread.num_unproven == 1
    bench.device.may_launch.set()
    assert [bench.next().result.step_id for _ in range(2)] == [1, 2]


def test_a_third_step_is_a_bug_of_whoever_submits_it(bench: Bench) -> None:
    bench.device.may_launch.clear()
    bench.thread.submit(prefill(1))
    bench.thread.submit(prefill(2))
    with pytest.raises(InvariantViolated):
        bench.thread.submit(prefill(3))


@pytest.mark.parametrize("stage", ["launch", "create", "record", "query"])
def test_o10_a_step_that_may_have_begun_is_proven_by_a_later_completion(bench: Bench, stage: str) -> None:
    bench.device.failing = {stage: 1}
    bench.thread.submit(prefill(1))
    event = bench.next()
    assert event == StepFailed(1, stage, True, f"DeviceBroken: {stage} failed (from OSError: the driver said so)")
    assert bench.device.calls[-1] == "wait"
    assert bench.thread.num_unproven == 0


@pytest.mark.parametrize("stage", ["create", "record", "wait"])
def test_o5_without_any_completion_nothing_is_proven(bench: Bench, stage: str) -> None:
    bench.device.failing = {"launch": 1, stage: 2}
    bench.thread.submit(prefill(1))
    event = bench.next()
    assert (event.stage, event.proven) == ("launch", False)
    assert bench.thread.num_unproven == 1


def test_o11_a_wait_that_fails_proves_nothing(bench: Bench) -> None:
    bench.device.is_pending = True
    bench.device.failing = {"wait": 1}
    bench.thread.submit(prefill(1))
    bench.device.is_finished.set()
    event = bench.next()
    assert (event.step_id, event.stage, event.proven) == (1, "wait", False)


def test_o4_a_lost_result_is_a_failure_of_a_proven_step(bench: Bench) -> None:
    bench.device.failing = {"collect": 1}
    bench.thread.submit(prefill(1))
    event = bench.next()
    assert (event.stage, event.proven) == ("collect", True)


def test_a_refused_plan_was_never_launched(bench: Bench) -> None:
    bench.thread.submit(StepPlan(1, (), (), (), (StepItem(9, 0, 1, 0, b""),)))
    event = bench.next()
    assert (event.stage, event.proven) == ("launch", True)
    assert bench.thread.num_unproven == 0


def test_stopping_waits_for_what_was_launched_and_reports_it(bench: Bench) -> None:
    bench.device.is_pending = True
    bench.thread.submit(prefill(1))
    while "query" not in bench.device.calls:
        pass
    bench.device.is_finished.set()
    assert bench.thread.stop()
    assert isinstance(bench.next(), StepDone)


def test_the_compute_thread_is_nicer_than_the_loop(bench: Bench) -> None:
    bench.thread.submit(prefill(1))
    bench.next()
    niceness = {int(task): os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir("/proc/self/task")}
    assert max(niceness.values()) == 19
    assert niceness[os.getpid()] < 19
