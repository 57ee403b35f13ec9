"""Loops that are occupied, lanes that slow each other down, and parts in the place of ours."""

import statistics
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from baton.core.events import Several, Wake
from baton.core.executor.events import PieceLanded, StepAdvanced, StepDone
from baton.core.executor.steps import NewSequence, StepItem, StepPlan
from baton.core.ids import Peer, Role
from baton.core.layout import KvLayout
from baton.core.session.node import Node
from baton.core.sim.env import Env
from baton.core.sim.fleet_run.device import TimedDevice
from baton.core.sim.fleet_run.parts import OURS, BadParts, Parts, load_parts
from baton.core.sim.fleet_run.process import LoopProcess
from baton.core.sim.fleet_run.records import StepRecord
from baton.core.sim.fleet_run.run import run_fleet
from baton.core.sim.launcher import LauncherCore
from baton.core.sim.step_time.model import KindModel, StepModel
from baton.core.wire.sampling import SamplingParams
from tests.support.fleets import asks, at_times, fleet, kind, run

Perform = Callable[[LoopProcess, Any], None]


def loop_process(turn: Callable[[Any, Any], None], perform: Perform = lambda process, command: None) -> LoopProcess:
    own = Peer("launcher", Role.LAUNCHER, 1)
    return LoopProcess(Env(0), own, Node(own, LauncherCore(own)), turn, perform)


def test_what_comes_while_the_loop_is_occupied_waits_and_threads_are_heard_at_once() -> None:
    heard: list[Any] = []
    process = loop_process(lambda process, event: heard.append((process.env.time.now, event)))
    process.occupy(2.0)
    for event in (PieceLanded(1), Several((PieceLanded(2), PieceLanded(3))), Wake(), PieceLanded(4)):
        process.hand(event)
    assert heard == []
    while process.env.time.step():
        pass
    joined = Several((PieceLanded(1), PieceLanded(2), PieceLanded(3)))
    assert heard == [(2.0, joined), (2.0, Wake()), (2.0, PieceLanded(4))]
    assert process.occupied_s == 2.0


def test_commands_after_one_that_occupies_the_loop_are_performed_when_it_is_free() -> None:
    done: list[Any] = []

    def perform(process: LoopProcess, command: Any) -> None:
        done.append((process.env.time.now, command))
        if command == "blocks":
            process.occupy(1.0)

    process = loop_process(lambda process, event: process.perform([event]), perform)
    process.perform(["first", "blocks", "blocks", "last"])
    process.hand("next")
    while process.env.time.step():
        pass
    assert done == [(0.0, "first"), (0.0, "blocks"), (1.0, "blocks"), (2.0, "last"), (2.0, "next")]
    with pytest.raises(RuntimeError):
        process.unblock()


def plan(step_id: int, lane: int, num_tokens: int, seq_id: int) -> StepPlan:
    new = NewSequence(seq_id, bytes(4 * 1000), 1000, SamplingParams(max_tokens=9, seed=5), 0)
    return StepPlan(step_id, (), (new,), (), (StepItem(seq_id, 0, num_tokens, 0, b""),), lane=lane)


def device_of(model: StepModel) -> tuple[LoopProcess, TimedDevice, list[StepRecord], list[Any]]:
    heard: list[Any] = []
    records: list[StepRecord] = []
    process = loop_process(lambda process, event: heard.append(event))
    return process, TimedDevice(process, model, records.append), records, heard


def test_c27_a_batch_decodes_on_however_it_changes_and_the_device_counts_where() -> None:
    process, device, records, heard = device_of(StepModel(prefill=kind(tokens=0.01), decode=kind(decodes=0.01)))
    both, one = (1, 2), (2,)
    device.launch(plan(1, 0, 1000, 1))
    device.launch(plan(2, 0, 1000, 2))
    for step_id, decodes in enumerate((both, both, both, one, one, both), 3):
        device.launch(StepPlan(step_id, (), (), (), (), decodes))
    while process.env.time.step():
        pass
    results = [event.result for event in heard][2:]
    assert [result.num_context for result in results] == [2002, 2004, 2006, 1004, 1005, 1004 + 1006]
    assert [record.features.context for record in records[2:]] == [result.num_context for result in results]
    assert [result.decoded for result in results] == [(5, 5)] * 3 + [(5,)] * 2 + [(5, 5)]
    assert results[0].decoded is results[2].decoded


def test_two_lanes_at_once_take_longer_by_the_profiles_factor_and_no_longer_than_both_are_there() -> None:
    process, device, records, heard = device_of(StepModel(prefill=kind(tokens=0.01), lane_slowdown=1.5))
    device.launch(plan(1, 0, 100, 1))  # 1 s alone
    device.launch(plan(2, 1, 300, 2))  # 3 s alone
    while process.env.time.step():
        pass
    assert [(record.lane, record.began_s, round(record.duration_s, 9)) for record in records] == [
        (0, 0.0, 1.5), (1, 0.0, 1.5 + 2.0),
    ]  # fmt: skip
    assert [event.result.step_id for event in heard if isinstance(event, StepDone)] == [1, 2]
    assert device.busy_s == pytest.approx(3.5)
    assert device.is_idle


def test_h8_how_far_a_step_is_is_told_by_layers_however_long_it_takes() -> None:
    """Another lane slows the second half of the step down; a step of less than a block has nothing to tell."""
    process, device, _, _ = device_of(StepModel(prefill=kind(tokens=0.01), lane_slowdown=1.5))
    told: list[tuple[float, Any]] = []
    process.report = lambda event: told.append((round(process.env.time.now, 9), event))  # type: ignore[method-assign]
    device.tell_progress(KvLayout(4, 1, 4, "float32", 64, "model", "tokenizer"))
    device.launch(plan(1, 0, 100, 1))  # 1 s alone
    process.env.time.after(0.5, device.launch, plan(2, 1, 60, 2))
    while process.env.time.step():
        pass
    assert [at for at, _ in told] == [0.5, 0.875, 1.25, 1.25 + 0.1]
    assert [event for _, event in told[:2]] == [StepAdvanced(1, 4), StepAdvanced(1, 6)]
    assert [event.result.step_id for _, event in told[2:]] == [1, 2]


def test_h8_a_part_that_is_shorter_than_a_block_tells_when_it_completes_one() -> None:
    process, device, _, _ = device_of(StepModel(prefill=kind(tokens=0.01)))
    told: list[Any] = []
    process.report = told.append  # type: ignore[method-assign]
    device.tell_progress(KvLayout(4, 1, 4, "float32", 64, "model", "tokenizer"))
    device.launch(plan(1, 0, 60, 1))
    device.launch(StepPlan(2, (), (), (), (StepItem(1, 60, 60, 0, b""),)))
    while process.env.time.step():
        pass
    assert [type(event) for event in told] == [StepDone, StepAdvanced, StepAdvanced, StepDone]


def test_plans_of_one_lane_are_computed_in_order_one_at_a_time() -> None:
    process, device, records, _ = device_of(StepModel(prefill=kind(tokens=0.01)))
    for step_id in (1, 2):
        device.launch(plan(step_id, 0, 100, step_id))
    while process.env.time.step():
        pass
    assert [(record.began_s, record.duration_s) for record in records] == [(0.0, 1.0), (1.0, 1.0)]


class BlockingDevice(TimedDevice):
    """Launching occupies the loop while another step is with the device."""

    def launch(self, plan: StepPlan) -> None:
        if not self.is_idle:
            self.process.block()
            self._blocked = plan
            return
        super().launch(plan)

    def _finish(self, lane: Any, serial: int) -> None:
        super()._finish(lane, serial)
        blocked, self._blocked = getattr(self, "_blocked", None), None
        if blocked is not None:
            super().launch(blocked)
            self.process.unblock()


def test_a_device_may_be_replaced_by_one_whose_launch_blocks_the_loop() -> None:
    steps = StepModel(prefill=kind(one=0.02), decode=kind(one=0.01), mixed=kind(one=0.03))
    requests = asks(6, 40, 8)
    spec = fleet("1U", steps)
    ours = run(spec, requests, at_times(requests, [0.0] * 6))
    theirs = run_fleet(spec, requests, at_times(requests, [0.0] * 6), 0, Parts(device=BlockingDevice))
    assert [row.num_output_tokens for row in theirs.facts] == [8] * 6
    assert ours.uses[0].occupied_share == 0
    assert theirs.uses[0].occupied_share > 0.5


def test_parts_are_named_by_module_and_name_and_what_is_none_is_refused() -> None:
    assert load_parts("", {}) is OURS
    assert load_parts("baton.core.sim.fleet_run.parts:OURS", {}) is OURS
    made = load_parts("baton.core.sim.fleet_run.parts:Parts", {"device": BlockingDevice})
    assert made.device is BlockingDevice
    for path, settings in (
        ("no.such:X", {}), ("baton.core.sim.fleet_run.parts:X", {}), ("", {"a": 1}), ("x", {}),
        ("baton.core.sim.fleet_run.parts:OURS", {"a": 1}), ("baton.core.sim.fleet_run.parts:Parts", {"a": 1}),
        ("baton.core.sim.env:Timeline", {}),
    ):  # fmt: skip
        with pytest.raises(BadParts, match="parts"):
            load_parts(path, settings)


def beside(slowdown: float, **slopes: float) -> KindModel:
    return msgspec.structs.replace(kind(**slopes), neighbour_slowdown=slowdown)


def test_devices_of_one_machine_take_longer_while_the_other_computes() -> None:
    process, first, records, _ = device_of(StepModel(prefill=beside(1.25, tokens=0.01)))
    second = TimedDevice(process, StepModel(prefill=kind(tokens=0.01)), records.append)
    for device in (first, second):
        device.share([first, second])
    first.launch(plan(1, 0, 300, 1))  # 3 s alone
    process.env.time.after(0.5, second.launch, plan(1, 0, 100, 1))
    while process.env.time.step():
        pass
    # the second, which nothing slows down, is there from 0.5 s to 1.5 s
    assert [(record.began_s, round(record.duration_s, 9)) for record in records] == [(0.5, 1.0), (0.0, 3.2)]
    assert (first.busy_s, second.busy_s) == (pytest.approx(3.2), pytest.approx(1.0))


def test_a_fleet_on_one_machine_is_slower_and_otherwise_the_same() -> None:
    steps = StepModel(prefill=beside(1.5, one=0.02), decode=beside(1.5, one=0.01))
    requests = asks(12, 40, 8)
    apart = fleet("1P1D", steps)
    runs = [
        run(spec, requests, at_times(requests, [0.02 * n for n in range(12)]))
        for spec in (apart, msgspec.structs.replace(apart, one_machine=True))
    ]
    means = [statistics.fmean(step.duration_s for step in found.recorder.steps) for found in runs]
    assert 1.1 * means[0] < means[1] < 1.5 * means[0]
    assert [row.num_output_tokens for row in runs[1].facts] == [8] * 12


def test_a_request_reaches_its_router_after_its_intake() -> None:
    spec = fleet("1U", StepModel(prefill=kind(one=0.02), decode=kind(one=0.01)))
    slow = msgspec.structs.replace(spec, wires=msgspec.structs.replace(spec.wires, intake_s=0.5))
    requests = asks(1, 40, 2)
    firsts = [run(each, requests, at_times(requests, [0.0])).facts[0].chunks[0].time_s for each in (spec, slow)]
    assert firsts[1] - firsts[0] == pytest.approx(0.5)
