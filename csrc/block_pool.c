#include "block_pool.h"

#include <stdlib.h>
#include <string.h>

static void list_push_front(block_pool_t *pool, pool_list_t *list, int32_t id) {
    pool_block_t *block = &pool->blocks[id];
    block->prev = -1;
    block->next = list->head;
    if (list->head >= 0) pool->blocks[list->head].prev = id;
    else list->tail = id;
    list->head = id;
    list->count++;
}

static void list_push_back(block_pool_t *pool, pool_list_t *list, int32_t id) {
    pool_block_t *block = &pool->blocks[id];
    block->next = -1;
    block->prev = list->tail;
    if (list->tail >= 0) pool->blocks[list->tail].next = id;
    else list->head = id;
    list->tail = id;
    list->count++;
}

static void list_remove(block_pool_t *pool, pool_list_t *list, int32_t id) {
    pool_block_t *block = &pool->blocks[id];
    if (block->prev >= 0) pool->blocks[block->prev].next = block->next;
    else list->head = block->next;
    if (block->next >= 0) pool->blocks[block->next].prev = block->prev;
    else list->tail = block->prev;
    list->count--;
}

int block_pool_init(block_pool_t *pool, int32_t num_blocks) {
    memset(pool, 0, sizeof(*pool));
    pool->num_blocks = num_blocks;
    pool->fresh = pool->cached = (pool_list_t){-1, -1, 0};
    pool->blocks = calloc((size_t)num_blocks + 1, sizeof(pool_block_t));
    pool->hashes = calloc((size_t)num_blocks + 1, sizeof(block_hash_t));
    if (!pool->blocks || !pool->hashes || block_index_init(&pool->index, num_blocks) < 0) {
        block_pool_free(pool);
        return -1;
    }
    for (int32_t id = 0; id < num_blocks; id++) {
        pool->blocks[id].parent = -1;
        list_push_back(pool, &pool->fresh, id);
    }
    return 0;
}

void block_pool_free(block_pool_t *pool) {
    free(pool->blocks);
    free(pool->hashes);
    free(pool->evicted);
    block_index_free(&pool->index);
    memset(pool, 0, sizeof(*pool));
}

static int is_block(const block_pool_t *pool, int32_t id) { return id >= 0 && id < pool->num_blocks; }

/* Makes room for `count` more evicted hashes, so that the eviction itself cannot fail. */
static int reserve_evicted(block_pool_t *pool, size_t count) {
    size_t needed = pool->num_evicted + count;
    if (needed <= pool->evicted_capacity) return 0;
    size_t capacity = pool->evicted_capacity ? pool->evicted_capacity : 64;
    while (capacity < needed) capacity *= 2;
    block_hash_t *grown = realloc(pool->evicted, capacity * sizeof(block_hash_t));
    if (!grown) return -1;
    pool->evicted = grown;
    pool->evicted_capacity = capacity;
    return 0;
}

/* Takes the least recently used cached block out of list and index. It is a leaf: children come before parents. */
static int32_t evict_one(block_pool_t *pool) {
    int32_t id = pool->cached.head;
    pool_block_t *block = &pool->blocks[id];
    list_remove(pool, &pool->cached, id);
    block_index_remove(&pool->index, pool->hashes, id);
    if (block->parent >= 0) pool->blocks[block->parent].num_children--;
    block->parent = -1;
    block->is_published = 0;
    pool->num_cached--;
    pool->evicted[pool->num_evicted++] = pool->hashes[id];
    return id;
}

pool_status_t block_pool_allocate(block_pool_t *pool, int32_t count, int32_t *ids) {
    if (count > block_pool_num_free(pool)) return POOL_EXHAUSTED;
    int32_t num_fresh = count < pool->fresh.count ? count : pool->fresh.count;
    if (reserve_evicted(pool, (size_t)(count - num_fresh)) < 0) return POOL_NO_MEMORY;
    for (int32_t i = 0; i < num_fresh; i++) {
        ids[i] = pool->fresh.head;
        list_remove(pool, &pool->fresh, ids[i]);
        pool->blocks[ids[i]].ref_count = 1;
    }
    for (int32_t i = num_fresh; i < count; i++) {
        ids[i] = evict_one(pool);
        pool->blocks[ids[i]].ref_count = 1;
    }
    return POOL_OK;
}

/* First reference of a cached block: out of the list, and its parent has one more held child. */
static void hold_cached(block_pool_t *pool, int32_t id) {
    list_remove(pool, &pool->cached, id);
    int32_t parent = pool->blocks[id].parent;
    if (parent >= 0) pool->blocks[parent].num_held_children++;
}

pool_status_t block_pool_retain(block_pool_t *pool, const int32_t *ids, size_t count, int32_t *culprit) {
    pool_status_t status = POOL_OK;
    size_t done = 0;
    for (; done < count; done++) {
        *culprit = ids[done];
        if (!is_block(pool, ids[done])) { status = POOL_UNKNOWN_BLOCK; break; }
        if (pool->blocks[ids[done]].ref_count == 0) { status = POOL_NOT_HELD; break; }
        if (pool->blocks[ids[done]].ref_count == INT32_MAX) { status = POOL_REF_LIMIT; break; }
        pool->blocks[ids[done]].ref_count++;
    }
    if (status == POOL_OK) return POOL_OK;
    while (done > 0) pool->blocks[ids[--done]].ref_count--;
    return status;
}

static pool_status_t release_one(block_pool_t *pool, int32_t id) {
    if (!is_block(pool, id)) return POOL_UNKNOWN_BLOCK;
    pool_block_t *block = &pool->blocks[id];
    if (block->ref_count == 0) return POOL_NOT_HELD;
    if (block->ref_count > 1) {
        block->ref_count--;
        return POOL_OK;
    }
    if (block->num_held_children > 0) return POOL_CHILD_HELD;
    block->ref_count = 0;
    if (block->is_published) {
        list_push_back(pool, &pool->cached, id);
        if (block->parent >= 0) pool->blocks[block->parent].num_held_children--;
    } else {
        list_push_front(pool, &pool->fresh, id);
    }
    return POOL_OK;
}

/* Undoes the newest release: the block is still at the end of the list where release_one put it. */
static void undo_release(block_pool_t *pool, int32_t id) {
    pool_block_t *block = &pool->blocks[id];
    if (block->ref_count == 0) {
        if (block->is_published) hold_cached(pool, id);
        else list_remove(pool, &pool->fresh, id);
    }
    block->ref_count++;
}

pool_status_t block_pool_release(block_pool_t *pool, const int32_t *ids, size_t count, int32_t *culprit) {
    for (size_t left = count; left > 0; left--) {
        pool_status_t status = release_one(pool, ids[left - 1]);
        if (status == POOL_OK) continue;
        *culprit = ids[left - 1];
        for (; left < count; left++) undo_release(pool, ids[left]);
        return status;
    }
    return POOL_OK;
}

pool_status_t block_pool_publish(block_pool_t *pool, int32_t id, block_hash_t hash, int32_t parent,
                                 int *is_canonical) {
    *is_canonical = 0;
    if (!is_block(pool, id) || (parent != -1 && !is_block(pool, parent))) return POOL_UNKNOWN_BLOCK;
    pool_block_t *block = &pool->blocks[id];
    if (block->ref_count == 0) return POOL_NOT_HELD;
    if (parent >= 0 && pool->blocks[parent].ref_count == 0) return POOL_PARENT_FREE;
    if (block->is_published) {
        *is_canonical = block_hash_equal(pool->hashes[id], hash) && block->parent == parent;
        return *is_canonical ? POOL_OK : POOL_REPUBLISHED;
    }
    if (parent >= 0 && !pool->blocks[parent].is_published) return POOL_OK;
    if (block_index_find(&pool->index, pool->hashes, hash) >= 0) return POOL_OK;
    pool->hashes[id] = hash;
    block->is_published = 1;
    block->parent = parent;
    block_index_insert(&pool->index, pool->hashes, id);
    pool->num_cached++;
    if (parent >= 0) {
        pool->blocks[parent].num_children++;
        pool->blocks[parent].num_held_children++;
    }
    *is_canonical = 1;
    return POOL_OK;
}

static int32_t find_hash(const block_pool_t *pool, const uint8_t *hashes, size_t position) {
    block_hash_t hash;
    memcpy(&hash, hashes + position * sizeof(hash), sizeof(hash));
    return block_index_find(&pool->index, pool->hashes, hash);
}

size_t block_pool_match(const block_pool_t *pool, const uint8_t *hashes, size_t count) {
    size_t low = 0, high = count; /* the first `low` are cached; number `high` and those after it are not */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (find_hash(pool, hashes, middle) >= 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

pool_status_t block_pool_acquire(block_pool_t *pool, const uint8_t *hashes, size_t count, int32_t *ids) {
    int32_t parent = -1;
    for (size_t i = 0; i < count; i++) {
        ids[i] = find_hash(pool, hashes, i);
        if (ids[i] < 0) return POOL_NOT_CACHED;
        if (pool->blocks[ids[i]].parent != parent) return POOL_NOT_A_CHAIN;
        if (pool->blocks[ids[i]].ref_count == INT32_MAX) return POOL_REF_LIMIT;
        parent = ids[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (pool->blocks[ids[i]].ref_count++ == 0) hold_cached(pool, ids[i]);
    }
    return POOL_OK;
}

int32_t block_pool_clear_cache(block_pool_t *pool) {
    int32_t count = pool->cached.count;
    if (reserve_evicted(pool, (size_t)count) < 0) return -1;
    for (int32_t i = 0; i < count; i++) list_push_front(pool, &pool->fresh, evict_one(pool));
    return count;
}

/* Walks one list and counts its blocks; -1 if it is not a proper list of free blocks of that kind. */
static int32_t walk_list(const block_pool_t *pool, const pool_list_t *list, int is_published) {
    int32_t count = 0, prev = -1;
    for (int32_t id = list->head; id >= 0; id = pool->blocks[id].next) {
        if (!is_block(pool, id) || count >= pool->num_blocks) return -1;
        const pool_block_t *block = &pool->blocks[id];
        if (block->prev != prev || block->ref_count != 0 || block->is_published != is_published) return -1;
        prev = id;
        count++;
    }
    return list->tail == prev ? count : -1;
}

/* Children of `id` among the published blocks, and those of them that are held; plain counting for the check. */
static void count_children(const block_pool_t *pool, int32_t *num_children, int32_t *num_held_children) {
    for (int32_t id = 0; id < pool->num_blocks; id++) {
        const pool_block_t *block = &pool->blocks[id];
        if (!block->is_published || !is_block(pool, block->parent)) continue;
        num_children[block->parent]++;
        if (block->ref_count > 0) num_held_children[block->parent]++;
    }
}

static const char *check_published(const block_pool_t *pool, int32_t id) {
    const pool_block_t *block = &pool->blocks[id];
    if (block_index_find(&pool->index, pool->hashes, pool->hashes[id]) != id)
        return "a published block is not in the index under its hash";
    if (block->parent < -1 || block->parent >= pool->num_blocks) return "a parent is not a block";
    if (block->parent < 0) return NULL;
    const pool_block_t *parent = &pool->blocks[block->parent];
    if (!parent->is_published) return "a published block's parent is not published";
    if (block->ref_count > 0 && parent->ref_count == 0) return "a held block's parent is not held";
    return NULL;
}

static const char *check_children(const block_pool_t *pool) {
    int32_t *counts = calloc(2 * (size_t)pool->num_blocks + 1, sizeof(int32_t));
    if (!counts) return "no memory for the check";
    const char *problem = NULL;
    count_children(pool, counts, counts + pool->num_blocks);
    for (int32_t id = 0; id < pool->num_blocks && !problem; id++) {
        const pool_block_t *block = &pool->blocks[id];
        if (block->num_children != counts[id]) problem = "a count of children is wrong";
        else if (block->num_held_children != counts[pool->num_blocks + id])
            problem = "a count of held children is wrong";
    }
    free(counts);
    return problem;
}

/* Every cached block must come before its parent, or LRU would evict the parent first. */
static const char *check_eviction_order(const block_pool_t *pool) {
    uint8_t *seen = calloc((size_t)pool->num_blocks + 1, 1);
    if (!seen) return "no memory for the check";
    const char *problem = NULL;
    for (int32_t id = pool->cached.head; id >= 0 && !problem; id = pool->blocks[id].next) {
        int32_t parent = pool->blocks[id].parent;
        if (parent >= 0 && seen[parent]) problem = "a parent would be evicted before its child";
        seen[id] = 1;
    }
    free(seen);
    return problem;
}

const char *block_pool_check(const block_pool_t *pool) {
    if (walk_list(pool, &pool->fresh, 0) != pool->fresh.count) return "the fresh list is broken";
    if (walk_list(pool, &pool->cached, 1) != pool->cached.count) return "the cached list is broken";
    int32_t num_free = 0, num_published = 0, num_indexed = 0;
    for (int32_t id = 0; id < pool->num_blocks; id++) {
        const pool_block_t *block = &pool->blocks[id];
        if (block->ref_count < 0) return "a reference count is negative";
        num_free += block->ref_count == 0;
        num_published += block->is_published;
        const char *problem = block->is_published ? check_published(pool, id) : NULL;
        if (problem) return problem;
    }
    for (uint32_t slot = 0; slot <= pool->index.mask; slot++) {
        int32_t id = pool->index.slots[slot];
        if (id < 0) continue;
        if (!is_block(pool, id) || !pool->blocks[id].is_published) return "the index names an unpublished block";
        num_indexed++;
    }
    if (num_free != block_pool_num_free(pool)) return "a block without references is in no list";
    if (num_published != pool->num_cached) return "the count of published blocks is wrong";
    if (num_indexed != pool->num_cached) return "the index holds a block twice or lost one";
    const char *problem = check_children(pool);
    return problem ? problem : check_eviction_order(pool);
}
