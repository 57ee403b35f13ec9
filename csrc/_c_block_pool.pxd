"""What `_block_pool.pyx` needs of block_pool.h."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint64_t


cdef extern from "block_index.h" nogil:
    ctypedef struct block_hash_t:
        uint64_t lo
        uint64_t hi


cdef extern from "block_pool.h" nogil:
    ctypedef enum pool_status_t:
        POOL_OK
        POOL_NO_MEMORY
        POOL_EXHAUSTED
        POOL_UNKNOWN_BLOCK
        POOL_NOT_HELD
        POOL_CHILD_HELD
        POOL_REPUBLISHED
        POOL_PARENT_FREE
        POOL_NOT_CACHED
        POOL_NOT_A_CHAIN
        POOL_REF_LIMIT

    ctypedef struct pool_block_t:
        int32_t ref_count
        uint8_t is_published

    ctypedef struct block_pool_t:
        int32_t num_blocks
        int32_t num_cached
        pool_block_t *blocks
        block_hash_t *hashes
        block_hash_t *evicted
        size_t num_evicted

    int block_pool_init(block_pool_t *pool, int32_t num_blocks)
    void block_pool_free(block_pool_t *pool)
    int32_t block_pool_num_free(const block_pool_t *pool)
    pool_status_t block_pool_allocate(block_pool_t *pool, int32_t count, int32_t *ids)
    pool_status_t block_pool_retain(block_pool_t *pool, const int32_t *ids, size_t count, int32_t *culprit)
    pool_status_t block_pool_release(block_pool_t *pool, const int32_t *ids, size_t count, int32_t *culprit)
    pool_status_t block_pool_publish(block_pool_t *pool, int32_t block, block_hash_t hash, int32_t parent,
                                     int *is_canonical)
    size_t block_pool_match(const block_pool_t *pool, const uint8_t *hashes, size_t count)
    pool_status_t block_pool_acquire(block_pool_t *pool, const uint8_t *hashes, size_t count, int32_t *ids)
    int32_t block_pool_clear_cache(block_pool_t *pool)
    const char *block_pool_check(const block_pool_t *pool)
