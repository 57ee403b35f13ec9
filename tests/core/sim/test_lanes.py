"""Two lanes of a simulated device: steps beside each other, and a violation where one touches what is the other's."""

from __future__ import annotations

from array import array

import pytest

from baton.core.executor.events import Piece, Post, StepAdvanced, StepDone
from baton.core.executor.steps import MAIN_LANE, PREFILL_LANE, CopyBlock, NewSequence, StepItem, StepPlan
from baton.core.ids import Role
from baton.core.sim.device import Model, SimDevice
from baton.core.sim.env import Violation
from baton.core.sim.lanes import SHARED_STRETCH
from baton.core.sim.step_time.fuzzed import StepTime
from baton.core.wire.sampling import SamplingParams
from tests.support.sim_parts import LAYOUT, Bench

PROMPT = [7, 1, 200, 3, 3, 90, 41, 0, 255, 16, 2]


def pack(values: list[int]) -> bytes:
    return array("i", values).tobytes()


def prompt(
    step: int, seq_id: int, blocks: list[int], lane: int = PREFILL_LANE, copies: tuple[CopyBlock, ...] = ()
) -> StepPlan:
    """A step of a whole new prompt, 11 tokens in blocks of 4."""
    new = NewSequence(seq_id, pack(PROMPT), len(PROMPT), SamplingParams(max_tokens=9), 0)
    return StepPlan(step, (), (new,), copies, (StepItem(seq_id, 0, len(PROMPT), 1, pack(blocks)),), lane=lane)


class Rig:
    def __init__(self) -> None:
        self.bench = Bench()
        process = self.bench.executor("unified0", Role.UNIFIED)
        assert process.device is not None
        self.device = process.device

    def done(self) -> list[int]:
        """Steps whose end was heard, in that order."""
        return [event.result.step_id for event in self.bench.heard["unified0/1"] if type(event) is StepDone]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_device_that_tells_says_before_a_steps_end_what_is_written() -> None:
    bench = Bench()
    process = bench.executor("unified0", Role.UNIFIED)
    assert process.memory is not None
    device = process.device = SimDevice(process, process.memory, StepTime(), Model(0, tells_progress=True))
    device.launch(prompt(1, 1, [0, 1, 2]))
    bench.run()
    told = [event for event in bench.heard["unified0/1"] if isinstance(event, StepAdvanced | StepDone)]
    assert [type(event) for event in told] == [StepAdvanced, StepDone]
    assert told[0] == StepAdvanced(1, LAYOUT.num_planes - 1)


@pytest.mark.parametrize(("num_told", "may_go"), [(0, False), (1, False), (2, True)])
def test_nothing_is_sent_before_it_is_said_to_be_written(rig: Rig, num_told: int, may_go: bool) -> None:
    rig.device.launch(prompt(1, 1, [0, 1, 2]))
    if num_told:
        rig.device.lanes.hear(StepAdvanced(1, num_told))
    assert rig.device.lanes.num_written(1) == num_told
    assert rig.device.lanes.num_written(5) is None  # no step writes it
    transfer = rig.device.process.transfer_of()
    transfer.books.windows["d", 1] = 1 << 20
    post = Post((Piece(1, "d", 1, 1, 0, 0, 4, 0, 2),))
    if may_go:
        transfer.take(post)
    else:
        with pytest.raises(Violation, match="nothing is sent before it is written"):
            transfer.take(post)


def test_o8_lanes_have_a_queue_of_two_each(rig: Rig) -> None:
    for step in (1, 2):
        rig.device.launch(prompt(2 * step - 1, 2 * step - 1, [], PREFILL_LANE))
        rig.device.launch(prompt(2 * step, 2 * step, [], lane=MAIN_LANE))
    with pytest.raises(Violation, match="launch queue of two"):
        rig.device.launch(prompt(5, 5, [], lane=MAIN_LANE))


def test_o8_steps_of_two_lanes_end_in_any_order_and_those_of_one_in_theirs(rig: Rig) -> None:
    rig.device.lanes.slow_factor = 50.0
    rig.device.launch(prompt(1, 1, [0, 1, 2], PREFILL_LANE))
    rig.device.lanes.slow_factor = 1.0
    rig.device.launch(prompt(2, 2, [3, 4, 5], lane=MAIN_LANE))
    rig.device.launch(StepPlan(3, (), (), (), (), lane=MAIN_LANE))
    rig.bench.run()
    assert rig.done() == [2, 3, 1]


def test_o8_a_step_is_slower_while_the_other_lane_runs_one_too(rig: Rig) -> None:
    alone = Rig()
    alone.device.launch(prompt(1, 1, [0, 1, 2], PREFILL_LANE))
    alone.bench.run()
    alone_s = alone.bench.env.time.now
    rig.device.launch(prompt(1, 1, [0, 1, 2], PREFILL_LANE))
    rig.device.launch(prompt(2, 2, [3, 4, 5], lane=MAIN_LANE))
    rig.bench.run()
    both_s = rig.bench.env.time.now
    assert alone_s < both_s < 2.5 * SHARED_STRETCH * alone_s


@pytest.mark.parametrize(
    "plan",
    [
        prompt(2, 2, [3, 4, 2], lane=MAIN_LANE),  # writes what step 1 writes
        prompt(2, 2, [3, 4, 5], MAIN_LANE, (CopyBlock(1, 6, 2),)),  # reads it
        StepPlan(2, (), (), (), (), (1,), (), 12, lane=MAIN_LANE),  # goes on with its sequence
        StepPlan(2, (1,), (), (), (), lane=MAIN_LANE),  # forgets its sequence
    ],
    ids=["writes", "reads", "continues", "drops"],
)
def test_o8_a_plan_that_meets_what_the_other_lane_has_in_flight_is_a_violation(rig: Rig, plan: StepPlan) -> None:
    rig.device.launch(prompt(1, 1, [0, 1, 2], PREFILL_LANE))
    with pytest.raises(Violation, match="lanes apart"):
        rig.device.launch(plan)


def test_o8_what_the_other_lane_only_reads_may_be_read(rig: Rig) -> None:
    rig.device.launch(prompt(1, 1, [0, 1, 2], PREFILL_LANE))
    rig.bench.run()
    rig.device.lanes.held.clear()
    decode = StepPlan(2, (), (), (), (), (1,), (), 12, lane=MAIN_LANE)
    rig.device.launch(decode)
    rig.device.launch(prompt(3, 3, [4, 5, 6], PREFILL_LANE, (CopyBlock(0, 4, 3),)))
    rig.bench.run()
    assert len(rig.done()) == 3
