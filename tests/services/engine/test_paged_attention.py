"""The native attention against torch, for every instruction set that this processor has."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from baton.core.executor.steps import NewSequence, StepItem
from baton.core.layout import KvLayout
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.batch import build_batch
from baton.services.executor.engine.kernels.native import AttentionStep, NativeAttention, rms_norm, usable_sets
from baton.services.executor.engine.kernels.reference import attend_chunk
from baton.services.executor.engine.kv_cache import KvCache
from baton.services.executor.engine.models.config import RopeConfig
from baton.services.executor.engine.models.rope import rope_table, rotate
from baton.services.executor.engine.sequences import DeviceSequence
from tests.services.engine.conftest import pack

NUM_BLOCKS = 48


class Setup:
    """Random KV memory, and sequences with scattered block tables."""

    def __init__(self, block_size: int, num_kv_heads: int, group: int, head_dim: int) -> None:
        torch.manual_seed(0)
        self.layout = KvLayout(2, num_kv_heads, head_dim, "float32", block_size, "", "")
        self.cache = KvCache(self.layout, NUM_BLOCKS)
        self.cache.memory.normal_()
        self.num_heads = num_kv_heads * group
        self.order = np.random.default_rng(1).permutation(NUM_BLOCKS).tolist()

    def sequence(self, seq_id: int, length: int) -> DeviceSequence:
        sequence = DeviceSequence(NewSequence(seq_id, pack([0] * length), length, SamplingParams(max_tokens=1), 0))
        for _ in range(self.layout.blocks_for(length)):
            sequence.blocks.append(self.order.pop())
        return sequence

    def attend(self, spans: list[tuple[DeviceSequence, int, int]], which: int, threads: int = 2) -> torch.Tensor:
        """Queries that depend on the position alone: [all rows, num_heads * head_dim]."""
        items = tuple(StepItem(sequence.seq_id, start, count, 0, b"") for sequence, start, count in spans)
        batch = build_batch([], items, [sequence for sequence, _, _ in spans], self.layout.block_size)
        native = NativeAttention(self.cache.memory, self.num_heads, which, threads)
        return native.attend(1, self.queries(batch.positions), AttentionStep(batch))

    def queries(self, positions: np.ndarray) -> torch.Tensor:
        width = (self.num_heads + 2 * self.layout.num_kv_heads) * self.layout.head_dim
        torch.manual_seed(2)
        return torch.randn(2048, width)[torch.from_numpy(positions)]

    def reference(self, sequence: DeviceSequence, start: int, count: int) -> torch.Tensor:
        width = self.num_heads * self.layout.head_dim
        queries = self.queries(np.arange(start, start + count))[:, :width].unflatten(1, (self.num_heads, -1))
        return attend_chunk(queries, self.cache, 1, torch.tensor(list(sequence.blocks)), start).flatten(1)


@pytest.mark.parametrize("which", usable_sets())
@pytest.mark.parametrize(
    ("block_size", "num_kv_heads", "group", "head_dim"),
    [(16, 3, 3, 64), (64, 2, 1, 128), (64, 1, 7, 16), (8, 2, 4, 80), (128, 1, 2, 256), (24, 2, 3, 48)],
)
def test_chunks_and_decodes_agree_with_torch(
    block_size: int, num_kv_heads: int, group: int, head_dim: int, which: int
) -> None:
    setup = Setup(block_size, num_kv_heads, group, head_dim)
    lengths = [1, 2, block_size, block_size + 1, 65, 130]
    sequences = [setup.sequence(index, length) for index, length in enumerate(lengths) if length <= 8 * block_size]
    spans = [(sequence, len(sequence.tokens) - 1, 1) for sequence in sequences]
    spans += [(sequence, len(sequence.tokens) // 2, (len(sequence.tokens) + 1) // 2) for sequence in sequences]
    ours = setup.attend(spans, which)
    theirs = torch.cat([setup.reference(*span) for span in spans])
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("which", usable_sets())
@pytest.mark.parametrize("cut", [1, 63, 64, 511, 512, 513, 800])
def test_a_query_gets_the_same_bits_in_a_chunk_and_as_a_decode(cut: int, which: int) -> None:
    setup = Setup(64, 2, 3, 64)
    sequence = setup.sequence(1, 1100)
    whole = setup.attend([(sequence, 0, 1100)], which)
    torch.testing.assert_close(whole[1000:], setup.reference(sequence, 1000, 100), atol=2e-5, rtol=1e-4)
    assert torch.equal(whole[cut:], setup.attend([(sequence, cut, 1100 - cut)], which, threads=1))
    for position in (cut - 1, cut, 1099):
        assert torch.equal(whole[position : position + 1], setup.attend([(sequence, position, 1)], which))


def test_slots_beyond_a_querys_position_are_never_read() -> None:
    setup = Setup(16, 1, 2, 32)
    sequence = setup.sequence(1, 40)
    clean = setup.attend([(sequence, 20, 10), (sequence, 25, 1)], usable_sets()[-1])
    for position in range(30, 48):
        setup.cache.memory[sequence.blocks[position // 16], :, :, position % 16] = math.nan
    assert torch.equal(clean, setup.attend([(sequence, 20, 10), (sequence, 25, 1)], usable_sets()[-1]))


@pytest.mark.parametrize("which", usable_sets())
@pytest.mark.parametrize("is_normed", [False, True])
def test_rotation_and_store_agree_with_torch(is_normed: bool, which: int) -> None:
    setup = Setup(16, 2, 3, 32)
    setup.cache.memory.zero_()
    table = rope_table(RopeConfig(10000.0), 32, 512, torch.float32)
    sequence = setup.sequence(1, 70)
    batch = build_batch([], (StepItem(1, 20, 50, 0, b""),), [sequence], 16)
    qkv = setup.queries(batch.positions)
    query, key, value = (part.unflatten(1, (-1, 32)) for part in qkv.clone().split((192, 64, 64), dim=1))
    norms = (torch.rand(32), torch.rand(32)) if is_normed else None
    if norms:
        query, key = (torch.nn.functional.rms_norm(p, (32,), w, 1e-5) for p, w in zip((query, key), norms, strict=True))
    rows = table[torch.from_numpy(batch.positions)]
    native = NativeAttention(setup.cache.memory, setup.num_heads, which, 2)
    native.rope_store(1, qkv, table, AttentionStep(batch), norms, 1e-5)
    torch.testing.assert_close(qkv[:, :192], rotate(query, rows).flatten(1), atol=1e-5, rtol=1e-5)
    keys, values = setup.cache.gather(1, torch.tensor(list(sequence.blocks)), 70)
    torch.testing.assert_close(keys[20:], rotate(key, rows), atol=1e-5, rtol=1e-5)
    assert torch.equal(values[20:], value)
    assert not setup.cache.memory[:, 0].any()
    assert not keys[:20].any()


@pytest.mark.parametrize("which", usable_sets())
@pytest.mark.parametrize("width", [16, 33, 576])
def test_rms_norm_agrees_with_torch(width: int, which: int) -> None:
    rows, weight = torch.randn(37, width), torch.rand(width)
    theirs = torch.nn.functional.rms_norm(rows, (width,), weight, 1e-5)
    torch.testing.assert_close(rms_norm(rows, weight, 1e-5, which, 2), theirs, atol=1e-5, rtol=1e-5)
