"""What block hashes promise, one example each."""

import array
import os
import subprocess
import sys

import pytest

from baton.core.kv.block_hash import hash_chain, lane_width, root_hash

KEY, ROOT = bytes(range(16)), bytes(16)


def chain(tokens: list[int], block_size: int = 2) -> bytes:
    return hash_chain(KEY, ROOT, array.array("i", tokens), block_size)


def test_only_full_blocks_are_hashed() -> None:
    assert len(chain([1, 2, 3, 4, 5])) == 2 * 16
    assert chain([1]) == b""
    assert chain([1, 2, 3, 4, 5])[:16] == chain([1, 2])


def test_a_token_changes_its_own_block_and_every_later_one() -> None:
    before, after = chain([1, 2, 3, 4, 5, 6]), chain([1, 2, 3, 9, 5, 6])
    assert before[:16] == after[:16]
    assert before[16:32] != after[16:32]
    assert before[32:] != after[32:]


def test_root_fields_cannot_imitate_each_other() -> None:
    assert root_hash(KEY, b"ab", b"c", b"") != root_hash(KEY, b"a", b"bc", b"")
    assert root_hash(KEY, b"", b"x", b"") != root_hash(KEY, b"", b"", b"x")


def test_another_key_or_root_gives_other_hashes() -> None:
    tokens = array.array("i", [1, 2])
    assert len({hash_chain(key, root, tokens, 2) for key in (KEY, ROOT) for root in (KEY, ROOT)}) == 4


HASH_TWO_ZEROS = """
from baton.core.kv.block_hash import hash_chain
print(hash_chain(bytes(range(16)), bytes(16), bytes(8), 2).hex())
"""


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_hashes_do_not_depend_on_the_process(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", HASH_TWO_ZEROS]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == chain([0, 0]).hex()


def test_what_are_no_tokens_is_refused() -> None:
    for tokens in (array.array("q", [1]), array.array("f", [1.0]), b"123"):
        with pytest.raises(TypeError, match="int32"):
            hash_chain(KEY, ROOT, tokens, 1)
    with pytest.raises(ValueError, match="block_size"):
        hash_chain(KEY, ROOT, b"", 0)
    for key, root in ((b"short", ROOT), (KEY, b"short")):
        with pytest.raises(ValueError, match="16 bytes"):
            hash_chain(key, root, b"", 1)


def test_the_lane_width_is_one_the_code_knows() -> None:
    assert lane_width() in (1, 8, 16)
