"""The CPU device: the same numbers however the work is cut, shared or copied, in torch and on the native kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from baton.core.executor.steps import SampledToken
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.devices.base import Device, PlanRejected
from baton.services.executor.engine.devices.cpu import CpuDevice
from baton.services.executor.engine.load import load_device
from tests.services.engine.conftest import Runner

BLOCK = 16
PROMPT = [(11 * i * i + 5 * i) % 97 for i in range(53)]
PARAMS = SamplingParams(max_tokens=20, temperature=0.9, top_p=0.95, seed=3, num_logprobs=2)


@pytest.fixture(params=["tiny", "llama"])
def folder(request: pytest.FixtureRequest, tiny_folder: Path, llama_folder: Path) -> Path:
    return tiny_folder if request.param == "tiny" else llama_folder


def load(folder: Path, num_threads: int = 1) -> Device[Any]:
    return load_device("cpu", folder, num_blocks=24, block_size=BLOCK, num_threads=num_threads)


def same(left: list[SampledToken], right: list[SampledToken], is_exact: bool) -> bool:
    """Tokens equal; log-probabilities bit for bit, or (torch's float64 sums) to a billionth."""
    if [token.token for token in left] != [token.token for token in right]:
        return False
    pairs = [
        (a.logprobs.logprob, b.logprobs.logprob) for a, b in zip(left, right, strict=True) if a.logprobs and b.logprobs
    ]
    return all(a == b if is_exact else abs(a - b) < 1e-9 for a, b in pairs)


@pytest.mark.parametrize("first", [1, 15, 16, 17, 31, 32, 33, 48, 52])
def test_every_chunking_of_a_prompt_gives_the_numbers_of_the_whole(first: int, folder: Path) -> None:
    whole = Runner(load(folder)).generate(1, PROMPT, PARAMS, [], [0, 1, 2, 3, 4])
    cut = Runner(load(folder)).generate(1, PROMPT, PARAMS, [first, len(PROMPT) - first], [9, 3, 23, 0, 11])
    assert same(whole, cut, folder.name != "tiny")


def test_a_prompt_fed_token_by_token_gives_the_numbers_of_the_whole(folder: Path) -> None:
    whole = Runner(load(folder)).generate(1, PROMPT, PARAMS, [], [0, 1, 2, 3, 4])
    single = Runner(load(folder)).generate(1, PROMPT, PARAMS, [1] * len(PROMPT), [0, 1, 2, 3, 4])
    assert same(whole, single, folder.name != "tiny")


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 31, 32, 33])
def test_a_resumed_answer_goes_on_with_the_same_tokens(length: int, folder: Path) -> None:
    """Prompt and the first answers are computed again as one prompt, as after a preemption."""
    whole = Runner(load(folder)).generate(1, PROMPT[:length], PARAMS, [], [0, 1, 2, 3])
    known = PROMPT[:length] + [token.token for token in whole[:7]]
    runner = Runner(load(folder))
    runner.add(2, known, PARAMS, num_prompt=length)
    resumed = [*runner.step((2, 0, len(known), 1, [5, 6, 7, 8]))[2]]
    for start in range(len(known), len(known) + 12):
        resumed.extend(runner.step((2, start, 1, 1, []))[2])
    assert same(whole[7:], resumed, folder.name != "tiny")


def test_a_batch_of_chunks_and_decodes_gives_each_sequence_what_it_gets_alone(folder: Path) -> None:
    alone = Runner(load(folder)).generate(1, PROMPT, PARAMS, [], [0, 1, 2, 3, 4])
    runner = Runner(load(folder, num_threads=2))
    lengths = {seq_id: 3 + 5 * seq_id for seq_id in range(2, 6)}
    for seq_id, length in lengths.items():
        runner.add(seq_id, PROMPT[:length], SamplingParams(max_tokens=99, seed=seq_id))
    runner.add(1, PROMPT, PARAMS)
    tables = {seq_id: [4 * seq_id - 8 + i for i in range(4)] for seq_id in lengths}
    runner.step(*((seq_id, 0, length, 1, tables[seq_id]) for seq_id, length in lengths.items()))
    together: list[SampledToken] = []
    start = 0
    for step in range(24):
        count = min(11, len(PROMPT) - start) if start < len(PROMPT) else 1
        blocks = [20, 21, 22, 23, 19] if start == 0 else []
        neighbours = [(seq_id, lengths[seq_id], 1, 1, []) for seq_id in lengths if step % seq_id]
        drawn = runner.step(*neighbours, (1, start, count, int(start + count >= len(PROMPT)), blocks))
        together.extend(drawn[1])
        start += count
        lengths |= {seq_id: lengths[seq_id] + 1 for seq_id, *_ in neighbours}
    assert same(alone, together, folder.name != "tiny")


def test_sequences_that_share_prefix_blocks_get_what_they_get_alone(folder: Path) -> None:
    other = [*PROMPT[:32], 1, 2, 3]
    alone = Runner(load(folder)).generate(1, other, PARAMS, [], [0, 1, 2, 3])
    runner = Runner(load(folder))
    runner.generate(1, PROMPT, PARAMS, [], [4, 5, 6, 7, 8])
    runner.add(2, other, PARAMS)
    shared = [*runner.step((2, 32, 3, 1, [4, 5, 9, 10]))[2]]
    for start in range(35, 54):
        shared.extend(runner.step((2, start, 1, 1, []))[2])
    assert same(alone, shared, folder.name != "tiny")


def test_choices_continue_from_shared_blocks_and_a_copied_partial_one(folder: Path) -> None:
    device = load(folder)
    runner = Runner(device)
    runner.add(1, PROMPT, PARAMS)
    first = runner.step((1, 0, len(PROMPT), 3, [0, 1, 2, 3, 4]))[1]
    assert [token.choice for token in first] == [0, 1, 2]
    runner.add(2, [*PROMPT, first[1].token], PARAMS, num_prompt=len(PROMPT), choice=1)
    runner.copy(3, 7, len(PROMPT) % BLOCK)
    copied = runner.step((2, len(PROMPT), 1, 1, [0, 1, 2, 7]), (1, len(PROMPT), 1, 1, []))[2]
    alone = Runner(load(folder))
    alone.add(5, PROMPT, PARAMS, choice=1)
    assert alone.step((5, 0, len(PROMPT), 1, [10, 11, 12, 13]))[5][0].token == first[1].token
    assert same(list(alone.step((5, len(PROMPT), 1, 1, []))[5]), list(copied), folder.name != "tiny")


def test_a_step_without_samples_returns_no_tokens_and_an_empty_plan_is_a_step(folder: Path) -> None:
    runner = Runner(load(folder))
    assert runner.step() == {}
    runner.add(1, PROMPT, PARAMS)
    assert runner.step((1, 0, 20, 0, [0, 1])) == {1: ()}


def test_a_rejected_plan_leaves_the_device_as_it_was(llama_folder: Path) -> None:
    runner = Runner(load(llama_folder))
    runner.add(1, [5, 97], PARAMS)
    with pytest.raises(PlanRejected):
        runner.step((1, 0, 2, 1, [0]))
    assert len(runner.generate(1, PROMPT, PARAMS, [], [0, 1, 2, 3, 4])) == PARAMS.max_tokens


def test_h8_planes_that_are_told_hold_what_they_hold_when_the_step_ends(folder: Path) -> None:
    device = load(folder)
    assert isinstance(device, CpuDevice)
    planes = device.cache.memory[:4].flatten(1, 2)  # a view: [block, plane, slot, head, head_dim]
    told = []
    device.tell_progress(lambda step_id, num: told.append((step_id, num, planes[:, :num].clone())))
    runner = Runner(device)
    runner.add(1, PROMPT, PARAMS)
    runner.step((1, 0, len(PROMPT), 1, [0, 1, 2, 3]))
    assert [num for _, num, _ in told] == [2 * layer for layer in device.layout.layers_to_tell()]
    assert {step_id for step_id, _, _ in told} == {0}
    for _, num, held in told:
        assert held.any()
        assert held.equal(planes[:, :num])
    told.clear()
    runner.step((1, len(PROMPT), 1, 1, []))
    assert told == []  # less than a block


def test_kv_memory_begins_as_zeros(folder: Path) -> None:
    device = load(folder)
    assert isinstance(device, CpuDevice)
    assert not device.cache.memory.any()
