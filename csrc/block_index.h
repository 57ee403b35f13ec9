/* Open-addressing table from a 128-bit block hash to the block that holds it.
 *
 * The table stores block ids only; the hash of each block lives with its owner, which passes the array to every call.
 * Never more than half full, so probes stay short; removal shifts back instead of leaving tombstones. */
#ifndef BATON_BLOCK_INDEX_H
#define BATON_BLOCK_INDEX_H

#include <stdint.h>

typedef struct {
    uint64_t lo, hi;
} block_hash_t;

typedef struct {
    int32_t *slots; /* block id, or -1 */
    uint32_t mask;  /* number of slots - 1; a power of two minus one */
} block_index_t;

/* Room for `num_blocks` entries. Returns 0, or -1 without memory. */
int block_index_init(block_index_t *index, int32_t num_blocks);
void block_index_free(block_index_t *index);

/* Returns the block with this hash, or -1. */
int32_t block_index_find(const block_index_t *index, const block_hash_t *hashes, block_hash_t hash);

/* `block` must not be in the table, nor another block with its hash. */
void block_index_insert(block_index_t *index, const block_hash_t *hashes, int32_t block);

/* `block` must be in the table. */
void block_index_remove(block_index_t *index, const block_hash_t *hashes, int32_t block);

static inline int block_hash_equal(block_hash_t a, block_hash_t b) { return a.lo == b.lo && a.hi == b.hi; }

#endif
