"""The compute threads: results in order, what is proven when something fails, and no duty but the device.

What is shown of one lane holds for a device with one lane, and for each of two.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from baton.core.errors import InvariantViolated
from baton.core.executor.events import StepDone, StepFailed
from baton.core.executor.steps import MAIN_LANE, PREFILL_LANE, NewSequence, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.compute_lanes import ComputeLanes
from baton.services.executor.compute_thread import ComputeThread
from tests.services.executor.faulty_device import FaultyDevice

HANG_LIMIT_S = 30


class Bench:
    def __init__(self, num_lanes: int, lane: int) -> None:
        self.device = FaultyDevice(lane)
        self.events: queue.Queue[Any] = queue.Queue()
        self.crashes: list[BaseException] = []
        self.lanes = ComputeLanes(self.device, num_lanes, self.events.put, self.crashes.append)
        self.lanes.start()
        self.lane = lane

    def submit(self, plan: StepPlan) -> None:
        """To the lane that may be faulty."""
        self.lanes.submit(replace(plan, lane=self.lane))

    def next(self) -> Any:
        return self.events.get(timeout=HANG_LIMIT_S)


@pytest.fixture(params=[(1, MAIN_LANE), (2, MAIN_LANE), (2, PREFILL_LANE)], ids=["only", "main", "prefill"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(*request.param)
    yield made
    made.device.may_launch.set()
    made.device.is_finished.set()
    made.lanes.stop()
    made.lanes.close()
    assert not made.lanes.is_alive
    assert made.device.is_closed
    assert made.crashes == []


def prefill(step_id: int, lane: int = MAIN_LANE) -> StepPlan:
    """Three tokens of a new sequence, and one sample."""
    new = NewSequence(step_id, bytes(12), 3, SamplingParams(max_tokens=9), 0)
    item = StepItem(step_id, 0, 3, 1, (step_id % 16).to_bytes(4, "little"))
    return StepPlan(step_id, (), (new,), (), (item,), lane=lane)


def test_steps_are_done_in_order_and_proven(bench: Bench) -> None:
    for step in range(1, 9):
        bench.submit(prefill(step))
        event = bench.next()
        assert isinstance(event, StepDone)
        assert event.result.step_id == step
    assert bench.lanes.num_launched == bench.lanes.num_proven == 8


def test_a_pending_step_does_not_keep_the_next_one_from_being_launched(bench: Bench) -> None:
    bench.device.is_pending = True
    bench.submit(prefill(1))
    bench.submit(prefill(2))
    while bench.device.calls.count("query") < 2:
        assert bench.events.empty()
    bench.device.is_finished.set()
    assert [bench.next().result.step_id for _ in range(2)] == [1, 2]


def test_h6_and_h15_a_blocked_launch_blocks_nobody_else(bench: Bench) -> None:
    bench.device.may_launch.clear()
    bench.submit(prefill(1))
    assert bench.device.in_launch.wait(HANG_LIMIT_S)
    bench.submit(prefill(2))  # returns although the launch before it does not
    assert bench.lanes.num_unproven == 1
    bench.device.may_launch.set()
    assert [bench.next().result.step_id for _ in range(2)] == [1, 2]


def test_a_third_step_is_a_bug_of_whoever_submits_it(bench: Bench) -> None:
    bench.device.may_launch.clear()
    bench.submit(prefill(1))
    bench.submit(prefill(2))
    with pytest.raises(InvariantViolated):
        bench.submit(prefill(3))


@pytest.mark.parametrize("stage", ["launch", "create", "record", "query"])
def test_o10_a_step_that_may_have_begun_is_proven_by_a_later_completion(bench: Bench, stage: str) -> None:
    bench.device.failing = {stage: 1}
    bench.submit(prefill(1))
    event = bench.next()
    assert event == StepFailed(1, stage, True, f"DeviceBroken: {stage} failed (from OSError: the driver said so)")
    assert bench.device.calls[-1] == "wait"
    assert bench.lanes.num_unproven == 0


@pytest.mark.parametrize("stage", ["create", "record", "wait"])
def test_o5_without_any_completion_nothing_is_proven(bench: Bench, stage: str) -> None:
    bench.device.failing = {"launch": 1, stage: 2}
    bench.submit(prefill(1))
    event = bench.next()
    assert (event.stage, event.proven) == ("launch", False)
    assert bench.lanes.num_unproven == 1


def test_o11_a_wait_that_fails_proves_nothing(bench: Bench) -> None:
    bench.device.is_pending = True
    bench.device.failing = {"wait": 1}
    bench.submit(prefill(1))
    bench.device.is_finished.set()
    event = bench.next()
    assert (event.step_id, event.stage, event.proven) == (1, "wait", False)


def test_o4_a_lost_result_is_a_failure_of_a_proven_step(bench: Bench) -> None:
    bench.device.failing = {"collect": 1}
    bench.submit(prefill(1))
    event = bench.next()
    assert (event.stage, event.proven) == ("collect", True)


def test_a_refused_plan_was_never_launched(bench: Bench) -> None:
    bench.submit(StepPlan(1, (), (), (), (StepItem(9, 0, 1, 0, b""),)))
    event = bench.next()
    assert (event.stage, event.proven) == ("launch", True)
    assert bench.lanes.num_unproven == 0


def test_stopping_waits_for_what_was_launched_and_reports_it(bench: Bench) -> None:
    bench.device.is_pending = True
    bench.submit(prefill(1))
    while "query" not in bench.device.calls:
        pass
    bench.device.is_finished.set()
    assert bench.lanes.stop()
    assert isinstance(bench.next(), StepDone)


def test_o6_an_error_after_all_is_proven_is_told_and_ends_nothing(bench: Bench) -> None:
    bench.submit(prefill(1))
    bench.next()
    assert bench.lanes.stop()
    bench.device.failing = {"close": 1}
    assert bench.lanes.close() == "DeviceBroken: close failed (from OSError: the driver said so)"


def test_the_compute_thread_is_nicer_than_the_loop(bench: Bench) -> None:
    bench.submit(prefill(1))
    bench.next()
    niceness = {int(task): os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir("/proc/self/task")}
    assert max(niceness.values()) == 19
    assert niceness[os.getpid()] < 19


@pytest.fixture(params=[MAIN_LANE, PREFILL_LANE], ids=["main", "prefill"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Bench, int]]:
    """A device with two lanes of which one may be faulty, and the other one."""
    made = Bench(2, request.param)
    yield made, 1 - request.param
    made.device.may_launch.set()
    made.device.is_finished.set()
    made.lanes.stop()
    assert made.crashes == []


def test_o8_a_launch_that_blocks_in_one_lane_holds_nothing_back_in_the_other(pair: tuple[Bench, int]) -> None:
    bench, other = pair
    bench.device.may_launch.clear()
    bench.submit(prefill(1))
    assert bench.device.in_launch.wait(HANG_LIMIT_S)
    for step in range(2, 9):
        bench.lanes.submit(prefill(step, other))
        assert bench.next().result.step_id == step
    assert bench.lanes.num_unproven == 1
    bench.device.may_launch.set()
    assert bench.next().result.step_id == 1


def test_o8_each_lane_has_its_own_queue_of_two(pair: tuple[Bench, int]) -> None:
    bench, other = pair
    bench.device.may_launch.clear()
    bench.submit(prefill(1))
    bench.submit(prefill(2))
    with pytest.raises(InvariantViolated):
        bench.submit(prefill(3))
    bench.lanes.submit(prefill(4, other))
    assert bench.next().result.step_id == 4


@pytest.mark.parametrize("stage", ["launch", "create", "record", "query", "collect"])
def test_o10_a_failure_in_one_lane_is_no_failure_of_the_other(pair: tuple[Bench, int], stage: str) -> None:
    bench, other = pair
    bench.device.failing = {stage: 1}
    bench.submit(prefill(1))
    event = bench.next()
    assert (event.step_id, event.stage, event.proven) == (1, stage, True)
    bench.lanes.submit(prefill(2, other))
    assert bench.next().result.step_id == 2


def test_o5_what_one_lane_cannot_prove_is_not_proven_by_the_other(pair: tuple[Bench, int]) -> None:
    bench, other = pair
    bench.device.failing = {"launch": 1, "create": 1}
    bench.submit(prefill(1))
    assert bench.next().proven is False
    bench.lanes.submit(prefill(2, other))
    assert bench.next().result.step_id == 2
    assert bench.lanes.num_unproven == 1
    assert not bench.lanes.stop()


def test_o10_an_end_that_cannot_be_handed_over_ends_the_thread_as_a_crash(pair: tuple[Bench, int]) -> None:
    """Nobody would ever apply it: whoever runs the thread is told, and nothing more is launched in its lane."""
    bench, other = pair
    crashed = queue.SimpleQueue[BaseException]()

    def refuse(event: Any) -> None:
        raise RuntimeError("the loop has been closed")

    lane = ComputeThread(bench.device, refuse, crashed.put, bench.lane)
    lane.start()
    lane.submit(replace(prefill(1), lane=bench.lane))
    assert str(crashed.get(timeout=HANG_LIMIT_S)) == "the loop has been closed"
    assert lane.num_unproven == 0  # its completion was proven before
    bench.lanes.submit(prefill(2, other))
    assert bench.next().result.step_id == 2
