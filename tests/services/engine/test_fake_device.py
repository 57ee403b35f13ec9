"""The fake device: the same tokens however the work is cut, other tokens when memory is not what it should be."""

from __future__ import annotations

import numpy as np
import pytest

from baton.core.executor.steps import MAIN_LANE, CopyBlock, NewBlocks, NewSequence, StepItem, StepPlan
from baton.core.sim import token_model
from baton.core.sim.reference import prompt_scores
from baton.core.sim.scenario import Client
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import join_scores
from baton.services.executor.engine.devices.base import CompletionState, DeviceBroken, PlanRejected
from baton.services.executor.engine.devices.fake import FakeDevice

BLOCK = 4
PROMPT = [7, 1, 200, 3, 3, 90, 41, 0, 255, 16, 2]


def pack(values: list[int]) -> bytes:
    return np.array(values, dtype="<i4").tobytes()


def new(seq_id: int, tokens: list[int], seed: int = 5) -> NewSequence:
    return NewSequence(seq_id, pack(tokens), len(tokens), SamplingParams(max_tokens=8, seed=seed), 0)


def run(device: FakeDevice, plan: StepPlan) -> list[int]:
    device.launch(plan)
    result = device.collect(plan.step_id)
    return [*result.decoded, *[token.token for item in result.items for token in item.sampled]]


def decode(device: FakeDevice, seq_id: int, start: int, count: int, first_step: int = 100) -> list[int]:
    plans = [StepPlan(first_step + i, (), (), (), (), (seq_id,), (), start + i + 1) for i in range(count)]
    return [run(device, plan)[0] for plan in plans]


def whole_answer(seed: int = 5) -> list[int]:
    """The reference: prompt at once, then four decodes."""
    device = FakeDevice(8, BLOCK)
    first = run(device, StepPlan(1, (), (new(1, PROMPT, seed),), (), (StepItem(1, 0, 11, 1, pack([0, 1, 2, 3])),)))
    return first + decode(device, 1, 11, 4)


@pytest.mark.parametrize("cut", range(1, 11))
def test_every_chunking_of_a_prompt_gives_the_same_tokens(cut: int) -> None:
    device = FakeDevice(8, BLOCK)
    blocks = [5, 2, 7, 1]
    used = -(-cut // BLOCK)
    run(device, StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, cut, 0, pack(blocks[:used])),)))
    first = run(device, StepPlan(2, (), (), (), (StepItem(1, cut, 11 - cut, 1, pack(blocks[used:])),)))
    assert first + decode(device, 1, 11, 4) == whole_answer()


@pytest.mark.parametrize("cut", range(1, 11))
def test_every_chunking_of_a_prompt_gives_the_scores_of_the_pure_token_model(cut: int) -> None:
    device = FakeDevice(8, BLOCK)
    params = SamplingParams(max_tokens=8, seed=5, num_prompt_logprobs=3)
    first = StepItem(1, 0, cut, 0, pack([5, 2, 7]), cut)
    device.launch(StepPlan(1, (), (NewSequence(1, pack(PROMPT), 11, params, 0),), (), (first,)))
    device.launch(StepPlan(2, (), (), (), (StepItem(1, cut, 11 - cut, 1, b"", 10 - cut),)))
    parts = [device.collect(step).items[0].scores for step in (1, 2)]
    client = Client(0.0, 0, tuple(PROMPT), params)
    assert join_scores([part for part in parts if part is not None]) == prompt_scores(client)


def test_without_checks_no_memory_is_touched_and_every_cut_gives_the_same_tokens() -> None:
    answers = set()
    for cut in (1, 6, 10):
        device = FakeDevice(8, BLOCK, checks_memory=False)
        run(device, StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, cut, 0, pack([0, 1, 2])),)))
        first = run(device, StepPlan(2, (), (), (), (StepItem(1, cut, 11 - cut, 1, pack([3])),)))
        answers.add((*first, *decode(device, 1, 11, 4)))
        assert np.count_nonzero(device.kv) == 0
    assert len(answers) == 1


def test_a_stale_slot_gives_wrong_scores() -> None:
    device = FakeDevice(8, BLOCK)
    params = SamplingParams(max_tokens=8, num_prompt_logprobs=0)
    sequence = NewSequence(1, pack(PROMPT), 11, params, 0)
    device.launch(StepPlan(1, (), (sequence,), (), (StepItem(1, 0, 8, 0, pack([0, 1, 2])),)))
    device.kv[1, :, 3] += 1  # what the next chunk reads first
    device.launch(StepPlan(2, (), (), (), (StepItem(1, 8, 3, 1, b"", 2),)))
    scores = device.collect(2).items[0].scores
    right = [token_model.score(token_model.prefix_digest(PROMPT[:end]), PROMPT[end]) for end in (9, 10)]
    assert scores is not None
    assert [row.logprob for row in scores.unpack()] != right


def test_the_tokens_are_those_of_the_pure_token_model() -> None:
    tokens = list(PROMPT)
    for position in range(5):
        tokens.append(token_model.next_token(token_model.prefix_digest(tokens), 5, position, 0, 256))
    assert tokens[11:] == whole_answer()


@pytest.mark.parametrize("block", [0, 1, 2])
def test_a_stale_block_anywhere_in_the_prefix_gives_wrong_tokens(block: int) -> None:
    device = FakeDevice(8, BLOCK)
    run(device, StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    stale = device.kv[block].copy()
    other = [(token + 1) % 256 for token in PROMPT]
    run(device, StepPlan(2, (), (new(2, other),), (), (StepItem(2, 0, 10, 0, pack([4, 5, 6])),)))
    device.kv[block] = device.kv[4 + block]
    wrong = run(device, StepPlan(3, (), (), (), (), (1,), (), 11))
    assert wrong != whole_answer()[:1]
    assert (stale != device.kv[block]).any()


def test_a_half_written_slot_gives_wrong_tokens() -> None:
    device = FakeDevice(8, BLOCK)
    run(device, StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    device.kv[0, 1, 2] = 0
    assert run(device, StepPlan(2, (), (), (), (), (1,), (), 11)) != whole_answer()[:1]


@pytest.mark.parametrize("decodes", [True, False])
def test_shared_prefix_blocks_and_a_copied_partial_block_continue_like_the_original(decodes: bool) -> None:
    device = FakeDevice(8, BLOCK)
    run(device, StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 10, 0, pack([0, 1, 2])),)))
    copy, blocks = CopyBlock(2, 6, 2), pack([0, 1, 6])
    as_item = StepPlan(2, (1,), (new(2, PROMPT),), (copy,), (StepItem(2, 10, 1, 1, blocks),))
    as_decode = StepPlan(2, (1,), (new(2, PROMPT),), (copy,), (), (2,), (NewBlocks(2, blocks),), 11)
    assert run(device, as_decode if decodes else as_item) == whole_answer()[:1]


def test_choices_of_one_prefill_are_the_tokens_that_each_would_have_drawn_alone() -> None:
    device = FakeDevice(8, BLOCK)
    plan = StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 11, 3, pack([0, 1, 2])),))
    digest = token_model.prefix_digest(PROMPT)
    assert run(device, plan) == [token_model.next_token(digest, 5, 0, choice, 256) for choice in range(3)]


def test_a_stop_token_ends_about_one_in_n_and_never_before_min_tokens() -> None:
    params = SamplingParams(max_tokens=9, seed=1, min_tokens=3, stop_token_ids=(257,))
    device = FakeDevice(8, BLOCK, end_one_in=1)
    sequence = NewSequence(1, pack(PROMPT), 11, params, 0)
    first = run(device, StepPlan(1, (), (sequence,), (), (StepItem(1, 0, 11, 1, pack([0, 1, 2, 3])),)))
    tokens = first + decode(device, 1, 11, 2)
    assert [token == 257 for token in tokens] == [False, False, True]


def test_a_plan_that_names_unknown_things_changes_nothing() -> None:
    device = FakeDevice(4, BLOCK)
    bad = [
        StepPlan(1, (9,), (), (), ()),
        StepPlan(1, (), (), (), (StepItem(9, 0, 1, 0, b""),)),
        StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 5, 0, pack([0])),)),
        StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 4, 0, pack([4])),)),
        StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 4, 1, pack([0])),)),
        StepPlan(1, (), (new(1, [300]),), (), ()),
        StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 4, 0, pack([0]), 5),)),
        StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 11, 1, pack([0, 1, 2]), 11),)),
        StepPlan(1, (), (), (CopyBlock(0, 4, 1),), ()),
        StepPlan(1, (), (), (), (), (9,)),
        StepPlan(1, (), (new(1, PROMPT),), (), (), (1,), (NewBlocks(1, pack([0, 1])),), 11),
        StepPlan(1, (), (new(1, PROMPT),), (), (), (1,), (NewBlocks(1, pack([0, 1, 4])),), 11),
        StepPlan(1, (), (new(1, [7]),), (), (), (1, 1), (NewBlocks(1, pack([0])),), 2),
        StepPlan(1, (), (new(1, []),), (), (), (1,), (NewBlocks(1, pack([0])),)),
        StepPlan(1, (1,), (), (), (), (1,)),
        StepPlan(1, (), (new(1, PROMPT),), (), (), (1,), (NewBlocks(1, pack([0, 1, 2])),), 10),
        StepPlan(1, (), (new(1, PROMPT),), (), (StepItem(1, 0, 4, 0, pack([0])),), (), (NewBlocks(1, pack([1])),)),
    ]
    for plan in bad:
        with pytest.raises(PlanRejected):
            device.launch(plan)
    assert not device.kv.any()
    assert len(run(device, StepPlan(2, (), (new(1, PROMPT),), (), (StepItem(1, 0, 11, 1, pack([0, 1, 2])),)))) == 1


def test_a_completion_that_was_never_recorded_is_not_proven() -> None:
    device = FakeDevice(4, BLOCK)
    completion = device.create_completion(MAIN_LANE)
    assert device.query(completion) is CompletionState.BROKEN
    with pytest.raises(DeviceBroken):
        device.wait(completion)
    device.record(completion)
    device.wait(completion)
    assert device.query(completion) is CompletionState.PROVEN


def test_a_result_is_collected_once() -> None:
    device = FakeDevice(4, BLOCK)
    device.launch(StepPlan(1, (), (), (), ()))
    device.collect(1)
    with pytest.raises(DeviceBroken):
        device.collect(1)
