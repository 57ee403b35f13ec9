"""A launch that blocks in the device holds back no transfer: the executor's machine, its real compute thread, and KV
written by a real transfer thread into another process. The test releases the launch only after it has seen the rest."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from baton.core.errors import Reason
from baton.core.events import Wake
from baton.core.executor.events import Launch, PieceLanded, Post
from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from baton.services.executor.compute_lanes import ComputeLanes
from baton.services.executor.engine.devices.fake import fake_layout
from tests.services.executor.faulty_device import FaultyDevice
from tests.support.expect import messages, only, says
from tests.support.machines import ROUTER, SCHEDULER, D, ExecutorRig, packed, prompt, work

NUM_BLOCKS = 16
HANG_LIMIT_S = 60.0
LAYOUT = fake_layout(4)


class Bench:
    """A prefill executor whose loop is the test: `turn` handles one event and performs its commands on real threads."""

    def __init__(self, stage: Any) -> None:
        self.writer, self.receiver = (stage.start(name, LAYOUT, NUM_BLOCKS) for name in ("prefill", "decode"))
        self.receiver.memory[:] = 0xA5
        stage.connect(self.writer, self.receiver)
        self.device = FaultyDevice()
        self.device.kv = self.writer.memory.view(np.uint64).reshape(self.device.kv.shape)
        self.device.kv[:] = 0
        self.results: queue.Queue[Any] = queue.Queue()
        self.lanes = ComputeLanes(self.device, 1, self.results.put, self.results.put)
        self.lanes.start()
        block_bytes = LAYOUT.block_bytes
        self.rig = ExecutorRig(
            Role.PREFILL, LAYOUT, NUM_BLOCKS, token_budget=8, window="fixed", window_bytes=block_bytes,
            piece_bytes=block_bytes,
        )  # fmt: skip
        self.perform(self.rig.up(SCHEDULER, ROUTER, D))
        self.perform(self.rig.connect(D))

    def perform(self, commands: list[Any]) -> list[Any]:
        for command in commands:
            if isinstance(command, Launch):
                self.lanes.submit(command.plan)
            elif isinstance(command, Post):
                self.writer.send(command)
        return commands

    def place(self, number: int, first_block: int) -> list[Any]:
        """Eight tokens, whose KV goes to two blocks there."""
        blocks = packed([first_block, first_block + 1])
        receive = m.Receive(number, AttemptId(number, 0), 0, blocks, 1 << 40)
        return self.perform(self.rig.hear(D, receive)) + self.perform(self.rig.prefill(number, self.asked(number)))

    def asked(self, number: int) -> m.Work:
        return work([token % 256 for token in prompt(8, number)], layout=LAYOUT)

    def turn(self, event: Any) -> list[Any]:
        return self.perform(self.rig.do(event))

    def next_result(self) -> Any:
        return self.results.get(timeout=HANG_LIMIT_S)

    def stop(self) -> None:
        self.device.may_launch.set()
        assert self.lanes.stop()
        self.lanes.close()


@pytest.fixture
def bench(stage: Any) -> Iterator[Bench]:
    made = Bench(stage)
    yield made
    made.stop()


def test_h6_and_h15_with_a_launch_blocked_chunks_go_out_completions_are_consumed_and_aborts_take_effect(
    bench: Bench,
) -> None:
    bench.place(1, 2)
    done = bench.next_result()
    bench.device.in_launch.clear()
    bench.device.may_launch.clear()  # from here on launches block, inside the device layer's call
    posted = only(bench.turn(done), Post)
    bench.place(2, 6)
    assert bench.device.in_launch.wait(HANG_LIMIT_S)
    bench.place(3, 10)
    while len(only(posted, Post)) < 2 or bench.rig.pieces:  # one piece is allowed at a time: two posts, two completions
        event = bench.writer.expect(PieceLanded)
        bench.rig.pieces.popleft()
        posted += bench.turn(event)
    assert says("decode", m.ChunkLanded, transfer_id=1, chunk=0) in posted
    assert says("scheduler", m.Ended, id=AttemptId(1, 0)) in posted
    np.testing.assert_array_equal(bench.receiver.memory[2:4], bench.writer.memory[:2])
    out = bench.perform(bench.rig.abort(3))
    assert says("scheduler", m.Ended, id=AttemptId(3, 0)) in out
    assert [message.reason for message in messages(out, m.TransferClosed)] == [Reason.ABORTED]
    out = bench.perform(bench.rig.do(Wake(), 61.0))  # the deadline of the one whose step is blocked
    assert says("router", m.AttemptFailed, id=AttemptId(2, 0), reason=Reason.DEADLINE) in out
    assert not bench.device.may_launch.is_set()
    assert bench.lanes.num_unproven == 1
    assert bench.rig.books()["blocks_free"] < NUM_BLOCKS  # what the blocked step may touch is not free
    bench.device.may_launch.set()
    while bench.rig.state.steps:
        bench.turn(bench.next_result())
    assert bench.rig.core.quiescent()
    assert bench.rig.books()["blocks_free"] == NUM_BLOCKS
