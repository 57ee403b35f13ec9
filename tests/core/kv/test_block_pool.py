"""What the block pool promises, one example each."""

import struct

import pytest

from baton.core.kv.block_pool import BlockPool, PoolCorrupt, PoolExhausted

A, B, C = (name * 16 for name in (b"a", b"b", b"c"))


def ids(*blocks: int) -> bytes:
    return struct.pack(f"<{len(blocks)}i", *blocks)


def pool_with_chain(num_blocks: int = 4) -> BlockPool:
    """Blocks 0, 1, 2 published as one chain A, B, C and held once."""
    pool = BlockPool(num_blocks)
    assert pool.allocate(3) == ids(0, 1, 2)
    for block, block_hash in enumerate((A, B, C)):
        assert pool.publish(block, block_hash, block - 1)
    return pool


def test_allocating_too_much_says_what_was_needed_and_free_and_changes_nothing() -> None:
    pool = BlockPool(3)
    pool.allocate(1)
    with pytest.raises(PoolExhausted) as refused:
        pool.allocate(3)
    assert (refused.value.needed, refused.value.free, pool.num_free) == (3, 2, 2)


def test_free_blocks_without_content_go_before_published_ones() -> None:
    pool = pool_with_chain()
    pool.release(ids(0, 1, 2))
    assert pool.allocate(1) == ids(3)
    assert pool.take_evicted() == b""


def test_eviction_takes_leaves_first_so_the_rest_can_still_be_found() -> None:
    pool = pool_with_chain(3)
    pool.release(ids(0, 1, 2))
    pool.allocate(1)
    assert pool.take_evicted() == C
    assert pool.take_evicted() == b""
    assert pool.match(A + B + C) == 2


def test_an_acquired_chain_is_safe_from_eviction() -> None:
    pool = pool_with_chain(3)
    pool.release(ids(0, 1, 2))
    assert pool.acquire(A + B, 2) == ids(0, 1)
    assert pool.allocate(1) == ids(2)
    with pytest.raises(PoolExhausted):
        pool.allocate(1)


def test_a_second_block_with_a_known_hash_is_not_published() -> None:
    pool = pool_with_chain()
    pool.allocate(1)
    assert not pool.publish(3, A, -1)
    assert not pool.is_published(3)
    assert pool.block_hash(3) is None


def test_a_block_below_an_unpublished_parent_is_not_published() -> None:
    pool = BlockPool(2)
    pool.allocate(2)
    assert not pool.publish(1, B, 0)
    assert pool.num_cached == 0


def test_publishing_again_the_same_way_is_no_change_and_another_way_is_a_bug() -> None:
    pool = pool_with_chain()
    assert pool.publish(1, B, 0)
    with pytest.raises(PoolCorrupt):
        pool.publish(1, A, 0)
    with pytest.raises(PoolCorrupt):
        pool.publish(1, B, -1)


@pytest.mark.parametrize("wrong", [ids(3), ids(0, 0), ids(-1), ids(4), ids(2, 1, 0, 3)])
def test_a_wrong_release_is_refused_as_a_whole(wrong: bytes) -> None:
    pool = pool_with_chain()
    with pytest.raises(PoolCorrupt):
        pool.release(wrong)
    assert [pool.ref_count(block) for block in range(4)] == [1, 1, 1, 0]
    pool.check_invariants()


def test_a_parent_cannot_lose_its_last_reference_before_its_child() -> None:
    pool = pool_with_chain()
    with pytest.raises(PoolCorrupt, match="before a published child"):
        pool.release(ids(0))
    pool.release(ids(1, 2))
    pool.release(ids(0))


def test_hashes_that_are_no_chain_cannot_be_acquired() -> None:
    pool = pool_with_chain()
    for hashes in (B, A + C, A + b"?" * 16):
        with pytest.raises(PoolCorrupt):
            pool.acquire(hashes, len(hashes) // 16)
    assert pool.ref_count(0) == 1


def test_clearing_the_cache_spares_held_blocks_and_reports_the_rest_as_evicted() -> None:
    pool = pool_with_chain()
    pool.release(ids(1, 2))
    assert pool.clear_cache() == 2
    assert pool.take_evicted() == C + B
    assert (pool.match(A + B + C), pool.num_free, pool.num_cached) == (1, 3, 1)


@pytest.mark.parametrize("call", ["retain", "release", "match"])
def test_bytes_that_are_no_whole_items_are_refused(call: str) -> None:
    with pytest.raises(ValueError, match="whole items"):
        getattr(BlockPool(1), call)(b"123")


def test_an_empty_pool_and_empty_requests_work() -> None:
    pool = BlockPool(0)
    assert (pool.allocate(0), pool.match(b""), pool.acquire(b"", 0), pool.clear_cache()) == (b"", 0, b"", 0)
    pool.release(b"")
    pool.check_invariants()
