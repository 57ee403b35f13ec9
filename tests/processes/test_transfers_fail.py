"""Writes of KV that fail or are slow, on real processes: the answers stay exact and the blocks come back."""

from __future__ import annotations

from tests.processes.conftest import Stage
from tests.processes.test_deaths import settle
from tests.support.load import Load
from tests.support.stack import Stack


def test_h16_failed_writes_cost_no_client_its_answer(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(60)
        await settle(stack, load)
        assert load.failures == {}
        assert (await stack.gauges("prefill"))["kv_transfer_failed_pieces_total"] > 0

    stage.run(story, prefill=("--fail-one-piece-in", "40"))


def test_w3_slow_writes_hold_back_no_running_sequence_and_lose_nothing(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(40)
        await settle(stack, load)
        assert load.failures == {}

    stage.run(story, prefill=("--piece-delay-s", "0.02"))
