"""The C block pool against its slow twin: every call gives the same ids, the same answers, the same refusals."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.kv.block_pool import BlockPool
from tests.support.outcomes import same_outcome
from tests.support.twins.block_pool import BlockPoolTwin, pack_ids, unpack_ids


def chain_hash(chain: int, position: int) -> bytes:
    """Chains 2n and 2n+1 share their first two blocks, as prompts share a system prompt."""
    shared = chain // 2 if position < 2 else chain
    return bytes([shared, position, position < 2]).ljust(16, b"\0")


class Holders:
    """Sequences that come, compute, publish and go; some calls are wrong on purpose."""

    def __init__(self, seed: int, num_blocks: int) -> None:
        self.random = random.Random(seed)
        self.real, self.twin = BlockPool(num_blocks), BlockPoolTwin(num_blocks)
        self.held: list[tuple[int, list[int]]] = []  # chain and block table of each sequence

    def call(self, method: str, *arguments: object) -> object:
        return same_outcome(self.real, self.twin, method, *arguments)

    def start(self) -> None:
        chain, length = self.random.randrange(8), self.random.randrange(1, 7)
        hashes = b"".join(chain_hash(chain, position) for position in range(length))
        count = self.call("match", hashes)
        table = unpack_ids(self.call("acquire", hashes, count))
        more = self.call("allocate", length - count)
        if more is None:
            self.call("release", pack_ids(table))
        else:
            self.held.append((chain, table + unpack_ids(more)))

    def publish(self) -> None:
        chain, table = self.random.choice(self.held)
        for position in range(self.random.randrange(len(table) + 1)):
            parent = table[position - 1] if position else -1
            self.call("publish", table[position], chain_hash(chain, position), parent)

    def fork(self) -> None:
        chain, table = self.random.choice(self.held)
        self.call("retain", pack_ids(table))
        self.held.append((chain, list(table)))

    def finish(self) -> None:
        _, table = self.held.pop(self.random.randrange(len(self.held)))
        self.call("release", pack_ids(table))

    def misuse(self) -> None:
        blocks = range(-1, self.real.num_blocks + 1)
        ids = [self.random.choice(blocks) for _ in range(self.random.randrange(1, 4))]
        free = [block for block in ids if self.twin.refs.get(block, 0) == 0]
        if free:
            self.call(self.random.choice(["retain", "release"]), pack_ids(ids))
            self.call("publish", free[0], b"x" * 16, -1)
        hashes = b"".join(chain_hash(self.random.randrange(8), position) for position in (1, 0))
        if self.call("acquire", hashes, 1) is not None:
            raise AssertionError("a chain began at its second block")

    def step(self) -> None:
        steps = {self.start: 5, self.misuse: 1}
        if self.held:
            steps |= {self.publish: 4, self.finish: 4, self.fork: 1}
        self.random.choices(list(steps), list(steps.values()))[0]()
        if self.random.random() < 0.02:
            self.call("clear_cache")
        if self.random.random() < 0.1:
            self.call("take_evicted")

    def compare(self) -> None:
        self.real.check_invariants()
        assert (self.real.num_free, self.real.num_cached) == (self.twin.num_free, self.twin.num_cached)
        for block in range(self.real.num_blocks):
            for method in ("ref_count", "is_published", "block_hash"):
                self.call(method, block)


@pytest.mark.parametrize("num_blocks", [1, 7, 24, 61])
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_calls_agree_with_the_twin(seed: int, num_blocks: int) -> None:
    holders = Holders(seed, num_blocks)
    for _ in range(1500):
        holders.step()
        holders.compare()
    while holders.held:
        holders.finish()
    holders.compare()
    assert holders.real.num_free == num_blocks


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 80))
def test_any_short_history_agrees_with_the_twin(seed: int, num_blocks: int, num_steps: int) -> None:
    holders = Holders(seed, num_blocks)
    for _ in range(num_steps):
        holders.step()
    holders.compare()
