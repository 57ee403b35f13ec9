"""What `_block_hash.pyx` needs of siphash.h and block_hash.h."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef extern from "siphash.h" nogil:
    int SIPHASH_KEY_BYTES
    int SIPHASH_DIGEST_BYTES
    void siphash128_into "siphash128"(const uint8_t *key, const uint8_t *data, size_t num_bytes, uint8_t *digest)


cdef extern from "block_hash.h" nogil:
    uint64_t ROOT_TAG
    int block_hash_lanes()
    void block_hash_chain(const uint8_t *key, const uint8_t *parent, const uint8_t *tokens, size_t num_blocks,
                          size_t block_size, int max_lanes, uint8_t *hashes)
