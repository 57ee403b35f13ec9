"""The machine, real compute threads and a device with memory: both lanes, with failures in either (O1, O3, O8, O10).

Blocks of the step that is going to fail are filled with canaries while it is held before its first touch; whatever the
machine does meanwhile, nobody else may write there.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from baton.core.executor import events as ev
from baton.core.executor.steps import MAIN_LANE, PREFILL_LANE
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from baton.services.executor.compute_lanes import ComputeLanes
from tests.services.executor.faulty_device import FaultyDevice
from tests.support.expect import messages, only
from tests.support.machines import ROUTER, SCHEDULER, ExecutorRig, tokens_told, work

HANG_LIMIT_S = 30
CANARY = np.uint64(0xC0FFEE)
NUM_BLOCKS = 16


class Threaded:
    """A unified executor's machine whose steps are computed by threads; the test is its loop."""

    def __init__(self, lane: int) -> None:
        self.device = FaultyDevice(lane)
        self.events: queue.Queue[Any] = queue.Queue()
        self.crashes: list[BaseException] = []
        self.lanes = ComputeLanes(self.device, 2, self.events.put, self.crashes.append)
        self.rig = ExecutorRig(Role.UNIFIED, self.device.layout, NUM_BLOCKS, step_mode="overlap", growth_reserve=16)
        self.rig.up(SCHEDULER, ROUTER)
        self.lanes.start()

    def launch(self, out: list[Any]) -> list[Any]:
        """Hand over what the machine has launched."""
        while self.rig.steps:
            self.lanes.submit(self.rig.steps.popleft())
        return out

    def run(self, number: int, length: int, max_tokens: int = 8) -> list[Any]:
        return self.launch(self.rig.run(number, work([number] * length, max_tokens, layout=self.device.layout)))

    def turn(self) -> list[Any]:
        """The next thing that a thread says."""
        return self.launch(self.rig.do(self.events.get(timeout=HANG_LIMIT_S)))

    def until_ended(self, number: int) -> list[Any]:
        out: list[Any] = []
        while AttemptId(number, 0) in self.rig.state.groups:
            out += self.turn()
        return out

    def blocks_of_others_than(self, number: int) -> set[int]:
        others = [s for s in self.rig.state.sequences.values() if s.group.work_id != AttemptId(number, 0)]
        return {block for sequence in others for block in sequence.block_ids}

    def poison(self, number: int) -> list[int]:
        """Fill the request's blocks; which they are."""
        (sequence,) = [s for s in self.rig.state.sequences.values() if s.group.work_id == AttemptId(number, 0)]
        blocks = list(sequence.block_ids)
        self.device.kv[np.array(blocks)] = CANARY
        return blocks


@pytest.fixture(params=[MAIN_LANE, PREFILL_LANE], ids=["main", "prefill"])
def threaded(request: pytest.FixtureRequest) -> Iterator[Threaded]:
    made = Threaded(request.param)
    yield made
    made.device.may_launch.set()
    made.device.is_finished.set()
    made.lanes.stop()
    assert made.crashes == []


def hold_before_it_touches_memory(threaded: Threaded) -> None:
    """Request 1 with a step that is held in the faulty lane at its launch; 2 is served by the other lane meanwhile."""
    device = threaded.device
    if device.lane == PREFILL_LANE:
        threaded.run(2, 8, max_tokens=8)
        threaded.turn()
        device.may_launch.clear()
        device.in_launch.clear()
        threaded.run(1, 8)
    else:
        device.may_launch.clear()
        threaded.run(1, 8)
        threaded.turn()
        threaded.run(2, 8)
    assert device.in_launch.wait(HANG_LIMIT_S)


def let_the_other_lane_rest(threaded: Threaded) -> None:
    """Until request 2 can do no more while request 1 is held: what is free then stays so."""
    if threaded.device.lane == PREFILL_LANE:
        threaded.until_ended(2)
    else:
        threaded.turn()  # the prompt of 2 is computed; its decode waits for the held lane


@pytest.mark.parametrize("stage", ["launch", "create", "record", "query", "collect"])
def test_o3_o10_nothing_of_a_step_that_may_run_is_reused_whatever_fails_and_in_whatever_lane(
    threaded: Threaded, stage: str
) -> None:
    rig, device = threaded.rig, threaded.device
    hold_before_it_touches_memory(threaded)
    blocks = threaded.poison(1)
    threaded.launch(rig.abort(1))
    let_the_other_lane_rest(threaded)
    threaded.run(3, 8)  # takes blocks of its own
    assert not set(blocks) & threaded.blocks_of_others_than(1)
    assert (device.kv[np.array(blocks)] == CANARY).all()
    free = rig.books()["blocks_free"]
    device.failing = {stage: 1}
    device.may_launch.set()
    out: list[Any] = []
    while not rig.state.stopped:
        out += threaded.turn()
    assert [command.code for command in only(out, ev.Exit)] == [ev.EXIT_STEP_FAILED]
    assert rig.books()["blocks_free"] <= free
    touched = 0 if stage == "launch" else 3  # the blocks of its 8 prompt tokens, or of the token after them
    assert (device.kv[np.array(blocks[touched:])] == CANARY).all()


def test_o10_a_wait_that_fails_in_either_lane_ends_the_process_and_frees_nothing(threaded: Threaded) -> None:
    rig, device = threaded.rig, threaded.device
    hold_before_it_touches_memory(threaded)
    let_the_other_lane_rest(threaded)
    device.is_pending = True
    device.failing = {"wait": 1}
    free = rig.books()["blocks_free"]
    threaded.launch(rig.abort(1))
    device.may_launch.set()
    device.is_finished.set()
    out: list[Any] = []
    while not rig.state.stopped:
        out += threaded.turn()
    assert [command.code for command in only(out, ev.Exit)] == [ev.EXIT_UNPROVEN]
    assert rig.books()["blocks_free"] <= free
    assert threaded.lanes.num_unproven > 0


def test_o1_the_last_decode_retires_while_a_prompt_is_in_flight_and_no_other_event_is_needed() -> None:
    threaded = Threaded(PREFILL_LANE)
    rig, device = threaded.rig, threaded.device
    threaded.run(1, 8, max_tokens=6)
    threaded.turn()
    device.is_pending = True
    threaded.run(2, 8, max_tokens=3)
    out = threaded.until_ended(1)
    assert len(tokens_told(out, 1)) == 5
    assert [step.plan.lane for step in rig.state.steps] == [PREFILL_LANE]
    assert threaded.events.empty()
    device.is_finished.set()  # nothing else happens: the thread that waits says it by itself
    out = threaded.turn()
    assert len(tokens_told(out, 2)) == 1
    device.is_pending = False
    out += threaded.until_ended(2)
    assert len(messages(out, m.Ended)) == 1
    assert rig.core.quiescent()
    assert threaded.lanes.stop()
    assert threaded.crashes == []


def test_x8_o8_the_tokens_are_those_of_steps_one_after_the_other() -> None:
    """The fake device's tokens are hashes of what it reads: one stale or foreign slot changes them."""
    told: list[list[list[int]]] = []
    for mode in ("mixed", "overlap"):
        threaded = Threaded(MAIN_LANE)
        if mode == "mixed":
            threaded.rig = ExecutorRig(Role.UNIFIED, threaded.device.layout, NUM_BLOCKS, growth_reserve=16)
            threaded.rig.up(SCHEDULER, ROUTER)
        out = [command for number in (1, 2) for command in threaded.run(number, 5 + number, max_tokens=10)]
        out += threaded.until_ended(1) + threaded.until_ended(2)
        out += threaded.run(3, 9, max_tokens=10) + threaded.until_ended(3)
        told.append([tokens_told(out, number) for number in (1, 2, 3)])
        assert threaded.lanes.stop()
    assert told[0] == told[1]
    assert [len(tokens) for tokens in told[0]] == [10, 10, 10]
