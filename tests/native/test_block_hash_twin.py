"""The C hash chain against its definition in Python, the official SipHash vectors, and itself at other widths."""

import array
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.kv.block_hash import extend_chain, hash_chain, root_hash, siphash128
from tests.support.twins.block_hash import hash_chain_twin, siphash128_twin

KEY = bytes(range(16))
VECTORS = (Path(__file__).parent / "vectors" / "siphash128.txt").read_text().split()
TOKENS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=120)


def packed(tokens: list[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}i", *tokens)


@pytest.mark.parametrize("length", range(64))
def test_siphash_gives_the_official_vectors(length: int) -> None:
    assert siphash128(KEY, bytes(range(length))).hex() == VECTORS[length]


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=600))
def test_siphash_agrees_with_its_definition(key: bytes, data: bytes) -> None:
    assert siphash128(key, data) == siphash128_twin(key, data)


@given(st.binary(min_size=16, max_size=16), TOKENS, st.integers(1, 9))
def test_a_chain_agrees_with_its_definition(key: bytes, tokens: list[int], block_size: int) -> None:
    assert hash_chain(key, KEY, packed(tokens), block_size) == hash_chain_twin(key, KEY, tokens, block_size)


@pytest.mark.parametrize("block_size", [1, 2, 3, 7, 16, 63, 64, 65, 256])
def test_lanes_and_portable_code_give_the_same_digests(block_size: int) -> None:
    rng = random.Random(block_size)
    for num_blocks in [*range(36), 63, 64, 65, 200]:
        tokens = rng.randbytes(4 * (num_blocks * block_size + rng.randrange(block_size)))
        vector = hash_chain(KEY, KEY, tokens, block_size)
        assert len(vector) == 16 * num_blocks
        assert vector == hash_chain(KEY, KEY, tokens, block_size, lanes=False)


def test_every_kind_of_buffer_and_any_alignment_give_the_same_digests() -> None:
    numbers = list(range(-50, 150))
    expected = hash_chain(KEY, KEY, packed(numbers), 4)
    shifted = memoryview(b"\0" + packed(numbers))[1:]
    for tokens in (array.array("i", numbers), np.array(numbers, np.int32), bytearray(packed(numbers)), shifted):
        assert hash_chain(KEY, KEY, tokens, 4) == expected


@given(TOKENS, st.integers(1, 5), st.integers(0, 30))
def test_a_chain_can_be_extended_after_any_block(tokens: list[int], block_size: int, num_before: int) -> None:
    whole = hash_chain(KEY, KEY, packed(tokens), block_size)
    num_before = min(num_before, len(whole) // 16)
    parent = whole[16 * (num_before - 1) : 16 * num_before] or KEY
    rest = extend_chain(KEY, parent, packed(tokens[num_before * block_size :]), block_size)
    assert whole[: 16 * num_before] + rest == whole


@given(st.tuples(*[st.binary(max_size=4)] * 3), st.tuples(*[st.binary(max_size=4)] * 3))
def test_different_root_fields_give_different_roots(fields: tuple[bytes, ...], others: tuple[bytes, ...]) -> None:
    assert (root_hash(KEY, *fields) == root_hash(KEY, *others)) == (fields == others)
