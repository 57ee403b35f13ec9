"""Python types around block_pool.c; `baton.core.kv.block_pool` documents the interface."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from _c_block_pool cimport *

from baton.core.kv.errors import PoolCorrupt, PoolExhausted

cdef enum:
    HASH_BYTES = 16
    ID_BYTES = 4

cdef dict FAULTS = {
    POOL_UNKNOWN_BLOCK: "is not a block of this pool",
    POOL_NOT_HELD: "has no reference",
    POOL_CHILD_HELD: "would lose its last reference before a published child does",
    POOL_REPUBLISHED: "is already published under another hash or parent",
    POOL_PARENT_FREE: "was to be published below a parent without reference",
    POOL_REF_LIMIT: "has more references than can be counted",
}


cdef int check_status(pool_status_t status, int32_t culprit) except -1:
    """Translate what the C side refused; nothing was changed there."""
    if status == POOL_OK:
        return 0
    if status == POOL_NO_MEMORY:
        raise MemoryError
    if status == POOL_NOT_CACHED:
        raise PoolCorrupt("a hash to acquire is not cached")
    if status == POOL_NOT_A_CHAIN:
        raise PoolCorrupt("the hashes to acquire are not one chain")
    raise PoolCorrupt(f"block {culprit} {FAULTS[status]}")


cdef Py_ssize_t count_items(bytes packed, Py_ssize_t item_bytes) except -1:
    """Return how many items of this size the bytes hold; only whole items."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(packed)
    if size % item_bytes:
        raise ValueError(f"{size} bytes are not whole items of {item_bytes} bytes")
    return size // item_bytes


cdef class BlockPool:
    cdef block_pool_t pool

    def __cinit__(self, int32_t num_blocks):
        if num_blocks < 0 or num_blocks > 1 << 30:
            raise ValueError(f"num_blocks must lie in [0, 2**30], not {num_blocks}")
        if block_pool_init(&self.pool, num_blocks) < 0:
            raise MemoryError

    def __dealloc__(self):
        block_pool_free(&self.pool)

    @property
    def num_blocks(self):
        return self.pool.num_blocks

    @property
    def num_free(self):
        return block_pool_num_free(&self.pool)

    @property
    def num_cached(self):
        return self.pool.num_cached

    def allocate(self, Py_ssize_t count):
        if count < 0:
            raise ValueError(f"cannot allocate {count} blocks")
        cdef int32_t num_free = block_pool_num_free(&self.pool)
        if count > num_free:
            raise PoolExhausted(needed=count, free=num_free)
        cdef bytes ids = PyBytes_FromStringAndSize(NULL, count * ID_BYTES)
        check_status(block_pool_allocate(&self.pool, <int32_t> count, <int32_t *> PyBytes_AS_STRING(ids)), -1)
        return ids

    def retain(self, bytes ids not None):
        cdef Py_ssize_t count = count_items(ids, ID_BYTES)
        cdef int32_t culprit = -1
        cdef pool_status_t status
        status = block_pool_retain(&self.pool, <const int32_t *> PyBytes_AS_STRING(ids), count, &culprit)
        check_status(status, culprit)

    def release(self, bytes ids not None):
        cdef Py_ssize_t count = count_items(ids, ID_BYTES)
        cdef int32_t culprit = -1
        cdef pool_status_t status
        status = block_pool_release(&self.pool, <const int32_t *> PyBytes_AS_STRING(ids), count, &culprit)
        check_status(status, culprit)

    def publish(self, int32_t block_id, bytes block_hash not None, int32_t parent):
        cdef block_hash_t packed
        cdef int is_canonical = 0
        if PyBytes_GET_SIZE(block_hash) != HASH_BYTES:
            raise ValueError(f"a block hash has {HASH_BYTES} bytes, not {len(block_hash)}")
        memcpy(&packed, PyBytes_AS_STRING(block_hash), HASH_BYTES)
        check_status(block_pool_publish(&self.pool, block_id, packed, parent, &is_canonical), block_id)
        return is_canonical != 0

    def match(self, bytes hashes not None):
        cdef Py_ssize_t count = count_items(hashes, HASH_BYTES)
        return block_pool_match(&self.pool, <const uint8_t *> PyBytes_AS_STRING(hashes), count)

    def acquire(self, bytes hashes not None, Py_ssize_t count):
        if count < 0 or count > count_items(hashes, HASH_BYTES):
            raise ValueError(f"cannot acquire {count} of {len(hashes) // HASH_BYTES} hashes")
        cdef bytes ids = PyBytes_FromStringAndSize(NULL, count * ID_BYTES)
        cdef pool_status_t status
        status = block_pool_acquire(
            &self.pool, <const uint8_t *> PyBytes_AS_STRING(hashes), count, <int32_t *> PyBytes_AS_STRING(ids)
        )
        check_status(status, -1)
        return ids

    def take_evicted(self):
        cdef bytes hashes
        hashes = PyBytes_FromStringAndSize(<const char *> self.pool.evicted, self.pool.num_evicted * HASH_BYTES)
        self.pool.num_evicted = 0
        return hashes

    def clear_cache(self):
        cdef int32_t count = block_pool_clear_cache(&self.pool)
        if count < 0:
            raise MemoryError
        return count

    def block_hash(self, int32_t block_id):
        self.check_id(block_id)
        if not self.pool.blocks[block_id].is_published:
            return None
        return PyBytes_FromStringAndSize(<const char *> &self.pool.hashes[block_id], HASH_BYTES)

    def ref_count(self, int32_t block_id):
        self.check_id(block_id)
        return self.pool.blocks[block_id].ref_count

    def is_published(self, int32_t block_id):
        self.check_id(block_id)
        return self.pool.blocks[block_id].is_published != 0

    def check_invariants(self):
        cdef const char *problem = block_pool_check(&self.pool)
        if problem != NULL:
            raise PoolCorrupt(problem.decode("ascii"))

    cdef int check_id(self, int32_t block_id) except -1:
        if block_id < 0 or block_id >= self.pool.num_blocks:
            raise PoolCorrupt(f"block {block_id} is not a block of this pool")
        return 0
