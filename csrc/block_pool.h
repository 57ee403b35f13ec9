/* Reference-counted KV blocks with a prefix-closed index of the published ones.
 *
 * A block with references is held; one without lies in exactly one of two lists: `fresh` (nothing worth keeping) or
 * `cached` (published, least recently released first). Invariants:
 *  - a published block's parent is published, and has a reference whenever the block has one;
 *  - so a block without references comes before its parent in `cached`, and plain LRU evicts leaves first;
 *  - every published block is in the index under its hash, and nothing else is.
 * Every call that fails leaves the pool as it was. */
#ifndef BATON_BLOCK_POOL_H
#define BATON_BLOCK_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "block_index.h"

typedef enum {
    POOL_OK = 0,
    POOL_NO_MEMORY,
    POOL_EXHAUSTED,      /* fewer free blocks than asked for */
    POOL_UNKNOWN_BLOCK,  /* not a block id of this pool */
    POOL_NOT_HELD,       /* the block has no reference to take back or to add to */
    POOL_CHILD_HELD,     /* the last reference goes while a published child still has one */
    POOL_REPUBLISHED,    /* the block is published under another hash or parent */
    POOL_PARENT_FREE,    /* the named parent has no reference */
    POOL_NOT_CACHED,     /* no block has this hash */
    POOL_NOT_A_CHAIN,    /* the hashes are cached, but not each as the child of the one before */
    POOL_REF_LIMIT,      /* the count would overflow */
} pool_status_t;

typedef struct {
    int32_t ref_count;
    int32_t prev, next;        /* neighbours in the list it lies in, -1 at the ends */
    int32_t parent;            /* published: the parent block, -1 for the first of a chain */
    int32_t num_children;      /* published children */
    int32_t num_held_children; /* published children with references */
    uint8_t is_published;
} pool_block_t;

typedef struct {
    int32_t head, tail;
    int32_t count;
} pool_list_t;

typedef struct {
    int32_t num_blocks;
    int32_t num_cached; /* published blocks, held or not */
    pool_block_t *blocks;
    block_hash_t *hashes; /* [num_blocks], valid for published blocks */
    pool_list_t fresh, cached;
    block_index_t index;
    block_hash_t *evicted; /* hashes dropped from the index since the last take */
    size_t num_evicted, evicted_capacity;
} block_pool_t;

int block_pool_init(block_pool_t *pool, int32_t num_blocks);
void block_pool_free(block_pool_t *pool);

static inline int32_t block_pool_num_free(const block_pool_t *pool) { return pool->fresh.count + pool->cached.count; }

/* Writes `count` ids, each with one reference: fresh blocks first, then the least recently used cached ones. */
pool_status_t block_pool_allocate(block_pool_t *pool, int32_t count, int32_t *ids);

/* One more reference for each id; each must have one already. `*culprit` is the id that failed. */
pool_status_t block_pool_retain(block_pool_t *pool, const int32_t *ids, size_t count, int32_t *culprit);

/* One reference less for each id, from the last to the first. */
pool_status_t block_pool_release(block_pool_t *pool, const int32_t *ids, size_t count, int32_t *culprit);

/* Enters the block into the index below `parent` (-1: first of its chain). `*is_canonical` tells whether the index
 * names this block afterwards; it does not if another block has the hash or the parent is not published. */
pool_status_t block_pool_publish(block_pool_t *pool, int32_t block, block_hash_t hash, int32_t parent,
                                 int *is_canonical);

/* Number of leading hashes of this chain that are cached, by bisection. `hashes` holds 16 bytes each. */
size_t block_pool_match(const block_pool_t *pool, const uint8_t *hashes, size_t count);

/* Takes one reference on each of the first `count` hashes' blocks and writes their ids. */
pool_status_t block_pool_acquire(block_pool_t *pool, const uint8_t *hashes, size_t count, int32_t *ids);

/* Drops every cached block without references; returns how many, or -1 without memory. */
int32_t block_pool_clear_cache(block_pool_t *pool);

/* NULL, or what is wrong. */
const char *block_pool_check(const block_pool_t *pool);

#endif
