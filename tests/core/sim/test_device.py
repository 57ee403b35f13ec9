"""The simulated device: right tokens from right memory, and a violation for everything that must not be."""

from __future__ import annotations

from array import array

import pytest

from baton.core.executor.events import StepDone, StepFailed
from baton.core.executor.steps import CopyBlock, NewBlocks, NewSequence, StepItem, StepPlan
from baton.core.ids import Role
from baton.core.sim import token_model
from baton.core.sim.env import Violation
from baton.core.sim.reference import prompt_scores
from baton.core.sim.scenario import Client
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import join_scores
from tests.support.sim_parts import Bench

PROMPT = [7, 1, 200, 3, 3, 90, 41, 0, 255, 16, 2]
PARAMS = SamplingParams(max_tokens=9, seed=5)


def pack(values: list[int]) -> bytes:
    return array("i", values).tobytes()


def new(seq_id: int, tokens: list[int] = PROMPT) -> NewSequence:
    return NewSequence(seq_id, pack(tokens), len(PROMPT), PARAMS, 0)


def scored_new(seq_id: int, num_top: int) -> NewSequence:
    return NewSequence(seq_id, pack(PROMPT), len(PROMPT), SamplingParams(9, seed=5, num_prompt_logprobs=num_top), 0)


def device():
    bench = Bench()
    process = bench.executor("unified0", Role.UNIFIED)
    assert process.device is not None
    return bench, process.device


def launch(bench: Bench, plan: StepPlan) -> None:
    process_device = bench.device
    process_device.launch(plan)
    bench.run()
    process_device.lanes.held.clear()


@pytest.fixture
def bench() -> Bench:
    bench, bench_device = device()
    bench.device = bench_device  # type: ignore[attr-defined]
    return bench


def results(bench: Bench) -> list[list[int]]:
    done = [event.result for event in bench.heard["unified0/1"] if isinstance(event, StepDone)]
    return [[*result.decoded, *[token.token for item in result.items for token in item.sampled]] for result in done]


def reference(count: int) -> list[int]:
    tokens = list(PROMPT)
    for position in range(count):
        tokens.append(token_model.next_token(token_model.prefix_digest(tokens), 5, position, 0, 256))
    return tokens[len(PROMPT) :]


@pytest.mark.parametrize("cut", [1, 3, 4, 7, 10])
def test_chunks_and_decodes_give_the_tokens_of_the_model(bench: Bench, cut: int) -> None:
    blocks = [5, 2, 7, 1]
    used = -(-cut // 4)
    launch(bench, StepPlan(1, (), (new(1),), (), (StepItem(1, 0, cut, 0, pack(blocks[:used])),)))
    launch(bench, StepPlan(2, (), (), (), (StepItem(1, cut, 11 - cut, 1, pack(blocks[used:])),)))
    for step in range(4):
        launch(bench, StepPlan(3 + step, (), (), (), (), (1,), (), 12 + step))
    assert [token for tokens in results(bench) for token in tokens] == reference(5)


@pytest.mark.parametrize("cut", [1, 3, 4, 7, 10])
def test_chunks_give_the_scores_of_the_model(bench: Bench, cut: int) -> None:
    new_ids = pack([5, 2, 7])
    launch(bench, StepPlan(1, (), (scored_new(1, 2),), (), (StepItem(1, 0, cut, 0, new_ids, cut),)))
    launch(bench, StepPlan(2, (), (), (), (StepItem(1, cut, 11 - cut, 1, b"", 10 - cut),)))
    done = [event.result for event in bench.heard["unified0/1"] if isinstance(event, StepDone)]
    client = Client(0.0, 0, tuple(PROMPT), SamplingParams(9, seed=5, num_prompt_logprobs=2))
    parts = [result.items[0].scores for result in done if result.items[0].scores is not None]
    assert join_scores(parts) == prompt_scores(client)


def test_scores_are_those_of_what_memory_holds(bench: Bench) -> None:
    bench.device._model = bench.device._model._replace(strict=False)
    launch(bench, StepPlan(1, (), (scored_new(1, 0),), (), (StepItem(1, 0, 8, 0, pack([0, 1, 2])),)))
    bench.device.memory.poison(0, 2, 3, "a test")
    launch(bench, StepPlan(2, (), (), (), (StepItem(1, 8, 3, 1, b"", 2),)))
    (item,) = [event.result for event in bench.heard["unified0/1"] if isinstance(event, StepDone)][1].items
    digests = [token_model.prefix_digest(PROMPT[:end]) for end in (9, 10)]
    right = [token_model.score(digest, token) for digest, token in zip(digests, PROMPT[9:], strict=True)]
    assert [row.logprob for row in item.scores.unpack()] != right


def test_a_prefix_that_memory_does_not_hold_is_a_violation(bench: Bench) -> None:
    launch(bench, StepPlan(1, (), (new(1),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    bench.device.memory.poison(1, 2, 3, "a test")
    with pytest.raises(Violation, match="reads what it should"):
        launch(bench, StepPlan(2, (), (), (), (), (1,), (), 11))


def test_without_the_strict_check_a_wrong_prefix_still_gives_a_wrong_token(bench: Bench) -> None:
    bench.device._model = bench.device._model._replace(strict=False)
    launch(bench, StepPlan(1, (), (new(1),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    bench.device.memory.poison(0, 2, 3, "a test")
    launch(bench, StepPlan(2, (), (), (), (), (1,), (), 11))
    assert results(bench)[1] != reference(1)


def test_a_block_that_is_reused_while_an_older_step_needs_it_breaks_that_step(bench: Bench) -> None:
    launch(bench, StepPlan(1, (), (new(1),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    bench.device.launch(StepPlan(2, (), (), (), (), (1,), (), 11))
    bench.device.launch(StepPlan(3, (1,), (new(2, [9] * 11),), (), (StepItem(2, 0, 4, 0, pack([1])),)))
    with pytest.raises(Violation, match="reads what it should"):
        bench.run()


@pytest.mark.parametrize("decodes", [True, False])
def test_a_copied_partial_block_continues_like_the_original(bench: Bench, decodes: bool) -> None:
    launch(bench, StepPlan(1, (), (new(1),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    copy, blocks = CopyBlock(2, 6, 2), pack([0, 1, 6])
    as_item = StepPlan(2, (1,), (new(2),), (copy,), (StepItem(2, 10, 1, 1, blocks),))
    as_decode = StepPlan(2, (1,), (new(2),), (copy,), (), (2,), (NewBlocks(2, blocks),), 11)
    launch(bench, as_decode if decodes else as_item)
    assert results(bench)[1] == reference(1)


def test_a_third_step_in_the_queue_is_a_violation(bench: Bench) -> None:
    bench.device.launch(StepPlan(1, (), (), (), ()))
    bench.device.launch(StepPlan(2, (), (), (), ()))
    with pytest.raises(Violation, match="launch queue of two"):
        bench.device.launch(StepPlan(3, (), (), (), ()))


@pytest.mark.parametrize(
    "plan",
    [
        StepPlan(2, (9,), (), (), ()),
        StepPlan(2, (), (), (), (StepItem(9, 0, 1, 0, b""),)),
        StepPlan(2, (), (new(3),), (), (StepItem(3, 0, 5, 0, pack([0])),)),
        StepPlan(2, (), (new(3),), (), (StepItem(3, 0, 4, 1, pack([4])),)),
        StepPlan(2, (), (new(3),), (), (StepItem(3, 0, 4, 0, pack([8])),)),
        StepPlan(2, (), (new(3),), (), (StepItem(3, 0, 4, 0, pack([0]), 5),)),
        StepPlan(2, (), (new(3),), (), (StepItem(3, 0, 11, 1, pack([0, 1, 2]), 11),)),
        StepPlan(2, (), (), (), (), (9,)),
        StepPlan(2, (), (new(3),), (), (), (3,), (NewBlocks(3, pack([0, 1, 2])),), 12),
        StepPlan(2, (), (new(3),), (), (), (3,), (NewBlocks(3, pack([0, 1])),), 11),
        StepPlan(2, (), (new(3),), (), (StepItem(3, 0, 4, 0, pack([0])),), (), (NewBlocks(3, pack([1])),)),
        StepPlan(2, (), (new(3, [5]),), (), (), (3, 3), (NewBlocks(3, pack([0])),), 2),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_a_violation(bench: Bench, plan: StepPlan) -> None:
    with pytest.raises(Violation):
        launch(bench, plan)


@pytest.mark.parametrize(
    ("stage", "is_proven"), [("launch", True), ("record", False), ("wait", False), ("collect", True)]
)
def test_a_failed_step_says_whether_its_end_is_proven(bench: Bench, stage: str, is_proven: bool) -> None:
    bench.device.lanes.failures.append(stage)
    launch(bench, StepPlan(1, (), (), (), ()))
    failed = bench.heard["unified0/1"]
    assert [(event.stage, event.proven) for event in failed if isinstance(event, StepFailed)] == [(stage, is_proven)]
