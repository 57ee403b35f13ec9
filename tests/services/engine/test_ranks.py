"""A model split over ranks: what they compute equals what one computes, and no step begins on which they differ."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from baton.core.errors import Incompatible
from baton.core.executor.steps import CopyBlock, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.collective import GroupBroken, RankGroup
from baton.services.executor.engine.devices.base import PlanRejected
from baton.services.executor.engine.load import cpu_layout, load_device
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.executor.engine.models.shard import Shard, shard_config
from tests.services.engine.conftest import SMALL, VOCAB_SIZE, Runner, save_random_model
from tests.support.rank_threads import run_ranks, threaded_group

GREEDY = SamplingParams(max_tokens=10, temperature=0.0, num_logprobs=3)
DIGEST = bytes(range(16))


@pytest.fixture(scope="session")
def biased_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every projection has a bias: those of sums must be added once."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True)
    return save_random_model(tmp_path_factory.mktemp("biased"), LlamaForCausalLM(config))


def prompt(length: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB_SIZE, length).tolist()


def tell_everything(device: object) -> list[object]:
    """Chunked prefill, decode, a copied block, several sequences in a step, choices, a sampled one."""
    runner = Runner(device)  # type: ignore[arg-type]
    said: list[object] = list(runner.generate(1, prompt(45, 1), GREEDY, [20, 25], [5, 3, 7, 1]))
    drawn = SamplingParams(max_tokens=3, temperature=1.0, seed=5, num_logprobs=2)
    runner.add(2, prompt(20, 2), drawn)
    runner.add(3, prompt(17, 3), GREEDY)
    said += runner.step((2, 0, 20, 3, [8, 9]), (3, 0, 17, 1, [10, 11])).values()
    runner.copy(10, 12, 16)
    said += runner.step((2, 20, 1, 1, []), (3, 17, 1, 1, [])).values()
    runner.add(4, prompt(17, 3), GREEDY)
    said += runner.step((4, 16, 1, 1, [12, 13]), (2, 21, 1, 1, [])).values()
    return said


@pytest.mark.parametrize("which", ["tiny_folder", "llama_folder", "biased_folder"])
def test_c25_two_ranks_compute_what_one_computes(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(which)
    alone = tell_everything(load_device("cpu", folder, num_blocks=16, block_size=16))
    with threaded_group(folder, 2, tmp_path) as group:
        together = tell_everything(group.device)
        assert group.ends == [None, None]
    for one, other in zip(flat(alone), flat(together), strict=True):
        assert one.token == other.token
        assert one.logprobs.logprob == pytest.approx(other.logprobs.logprob, abs=1e-4)


def flat(said: list[object]) -> list[object]:
    return [token for answer in said for token in (answer if type(answer) is tuple else (answer,))]


def test_c25_each_rank_keeps_the_kv_of_its_own_heads(tiny_folder: Path, tmp_path: Path) -> None:
    alone = load_device("cpu", tiny_folder, num_blocks=16, block_size=16)
    Runner(alone).generate(1, prompt(45, 1), GREEDY, [20, 25], [5, 3, 7, 1])
    with threaded_group(tiny_folder, 2, tmp_path) as group:
        Runner(group.device).generate(1, prompt(45, 1), GREEDY, [20, 25], [5, 3, 7, 1])
        parts = [device.cache.memory for device in (group.device, *group.followers)]
    whole = alone.cache.memory  # type: ignore[attr-defined]
    torch.testing.assert_close(torch.cat(parts, dim=4), whole, atol=1e-9, rtol=0)


def test_c25_a_token_is_the_same_whatever_is_computed_beside_it(llama_folder: Path, tmp_path: Path) -> None:
    """Bit for bit, though the parts are rounded: they are added in the order of the ranks."""
    with threaded_group(llama_folder, 2, tmp_path) as group:
        runner = Runner(group.device)
        lonely = runner.generate(1, prompt(40, 1), GREEDY, [], [5, 3, 7, 1])
        runner.add(2, prompt(40, 1), GREEDY)
        runner.add(3, prompt(30, 2), GREEDY)
        beside = [*runner.step((3, 0, 30, 1, [11, 12, 13]), (2, 0, 40, 1, [8, 9, 10]))[2]]
        for step in range(9):
            new_blocks = [2] if step == 8 else []
            beside += runner.step((2, 40 + step, 1, 1, new_blocks), (3, 30 + step, 1, 1, []))[2]
    assert beside == lonely


def test_c25_a_rank_with_another_order_ends_the_group_before_anything_is_computed(
    tiny_folder: Path, tmp_path: Path
) -> None:
    """A decision that differs, if only in one token, is never computed."""
    with threaded_group(tiny_folder, 2, tmp_path) as group:
        runner = Runner(group.device)
        tokens = prompt(20, 1)
        group.spoil = lambda rank, order: order.replace(bytes([tokens[7], 0, 0, 0]), bytes([tokens[7] ^ 1, 0, 0, 0]))
        runner.add(1, tokens, GREEDY)
        with pytest.raises(GroupBroken, match="rank 1 has another order for step 0"):
            runner.step((1, 0, 20, 1, [5, 3]))
        assert not any(device.cache.memory.any() for device in (group.device, *group.followers))
    assert isinstance(group.ends[1], GroupBroken)


@pytest.mark.parametrize("seed", range(12))
def test_c25_whatever_is_wrong_with_an_order_its_step_is_computed_by_nobody(
    seed: int, tiny_folder: Path, tmp_path: Path
) -> None:
    """One byte of one order, any of them, is another one; or the rank has the order before it once more."""
    rng = np.random.default_rng(seed)
    bad_step = int(rng.integers(1, 6))
    with threaded_group(tiny_folder, 2, tmp_path) as group:
        runner = Runner(group.device)
        runner.add(1, prompt(20, seed), GREEDY)
        runner.step((1, 0, 20, 1, [5, 3]))
        told: list[bytes] = []

        def spoil(rank: int, order: bytes) -> bytes:
            told.append(order)
            if len(told) != bad_step:
                return order
            if len(told) > 1 and rng.integers(3) == 0:
                return told[-2]
            place = int(rng.integers(len(order)))
            return order[:place] + bytes([order[place] ^ int(rng.integers(1, 256))]) + order[place + 1 :]

        group.spoil = spoil
        for step in range(bad_step - 1):
            runner.step((1, 20 + step, 1, 1, []))
        before = [device.cache.memory.clone() for device in (group.device, *group.followers)]
        with pytest.raises(GroupBroken):
            runner.step((1, 19 + bad_step, 1, 1, []))
        for device, memory in zip((group.device, *group.followers), before, strict=True):
            assert torch.equal(device.cache.memory, memory)


def test_c25_a_rank_that_stands_before_another_step_is_noticed(tmp_path: Path) -> None:
    def step(group: RankGroup) -> None:
        number = 2 if group.shard.rank == 1 else 1
        group.agree(number, DIGEST)

    outcomes = run_ranks(2, step, tmp_path / "store")
    assert all(isinstance(outcome, GroupBroken) for outcome in outcomes)


def test_c25_of_a_broken_group_nothing_is_proven_and_nothing_more_is_computed(
    tiny_folder: Path, tmp_path: Path
) -> None:
    with threaded_group(tiny_folder, 2, tmp_path) as group:
        runner = Runner(group.device)
        runner.add(1, prompt(20, 1), GREEDY)
        group.spoil = lambda rank, order: order[:-1] + b"\x00"
        with pytest.raises(GroupBroken):
            runner.step((1, 0, 20, 1, [5, 3]))
        completion = group.device.create_completion(0)
        with pytest.raises(GroupBroken):
            group.device.record(completion)
        with pytest.raises(GroupBroken):
            group.device.launch(StepPlan(1, (1,), (), (), ()))


def test_a_plan_that_the_first_rank_rejects_is_told_to_nobody(tiny_folder: Path, tmp_path: Path) -> None:
    with threaded_group(tiny_folder, 2, tmp_path) as group:
        runner = Runner(group.device)
        runner.add(1, prompt(20, 1), GREEDY)
        first = runner.step((1, 0, 20, 1, [5, 3]))
        with pytest.raises(PlanRejected):
            group.device.launch(StepPlan(9, (), (), (), (StepItem(7, 0, 1, 1, b""),)))
        second = runner.step((1, 20, 1, 1, []))
    alone = Runner(load_device("cpu", tiny_folder, num_blocks=16, block_size=16))
    alone.add(1, prompt(20, 1), GREEDY)
    assert [first, second] == [alone.step((1, 0, 20, 1, [5, 3])), alone.step((1, 20, 1, 1, []))]


def test_a_step_that_only_copies_is_done_on_every_rank_when_it_is_proven(tiny_folder: Path, tmp_path: Path) -> None:
    with threaded_group(tiny_folder, 2, tmp_path) as group:
        for device in (group.device, *group.followers):
            device.cache.memory[3] = 1.0
        group.device.launch(StepPlan(1, (), (), (CopyBlock(3, 4, 16),), ()))
        assert all(device.cache.memory[4].all() for device in (group.device, *group.followers))


def test_c25_a_rank_that_does_not_come_ends_the_group_in_bounded_time(tmp_path: Path) -> None:
    has_ended = threading.Event()

    def step(group: RankGroup) -> None:
        if group.shard.rank == 1:
            has_ended.wait(10)  # its connections stay open, as those of a process that has stopped; then they close
            return
        try:
            group.agree(1, DIGEST)
        finally:
            has_ended.set()

    first, _ = run_ranks(2, step, tmp_path / "store", timeout_s=0.5)
    assert isinstance(first, GroupBroken)
    assert re.search("did not come within 0.5 s: .*Timed out", str(first))


def test_c25_a_group_that_never_meets_is_an_error_of_the_start(tmp_path: Path) -> None:
    with pytest.raises(GroupBroken, match="did not meet"):
        RankGroup(Shard(0, 2), 0.3).connect(tmp_path / "store")


def test_counts_of_every_rank_are_known_to_all(tmp_path: Path) -> None:
    def steps(group: RankGroup) -> list[int]:
        for number in range(4):
            group.agree(number, DIGEST)
        return [count.num_steps for count in group.counts]

    assert run_ranks(3, steps, tmp_path / "store") == [[3, 3, 3]] * 3


def test_c12_ranks_have_one_lane_of_steps(tiny_folder: Path, tmp_path: Path) -> None:
    two_lanes = [frozenset({0})] * 2
    with threaded_group(tiny_folder, 2, tmp_path) as group, pytest.raises(Incompatible, match="num_ranks = 2"):
        group.device.use_lanes(two_lanes)


@pytest.mark.parametrize(("num_ranks", "said"), [(3, "4 attention heads"), (4, "2 KV heads"), (5, "128 MLP columns")])
def test_c25_a_model_that_does_not_divide_is_refused_with_the_numbers(
    num_ranks: int, said: str, tiny_folder: Path
) -> None:
    with pytest.raises(Incompatible, match=f"device.num_ranks = {num_ranks}: does not divide .*{said}"):
        shard_config(read_decoder_config(tiny_folder), Shard(0, num_ranks))


def test_w13_layouts_of_unequal_numbers_of_ranks_differ(tiny_folder: Path) -> None:
    """So the handshake, and the scheduler, keep such executors apart; ranks of one group have one layout."""
    config = read_decoder_config(tiny_folder)
    parts = [shard_config(config, shard) for shard in (Shard(), Shard(0, 2), Shard(1, 2))]
    one, first, second = (cpu_layout(tiny_folder, part, 16).fingerprint() for part in parts)
    assert one != first == second
