#include "block_index.h"

#include <stdlib.h>
#include <string.h>

static uint32_t home_slot(const block_index_t *index, block_hash_t hash) {
    uint64_t mixed = (hash.lo ^ (hash.hi * 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(mixed >> 32) & index->mask;
}

int block_index_init(block_index_t *index, int32_t num_blocks) {
    uint32_t capacity = 8;
    while (capacity < 2u * (uint32_t)num_blocks) capacity *= 2;
    index->slots = malloc(capacity * sizeof(int32_t));
    if (!index->slots) return -1;
    memset(index->slots, 0xff, capacity * sizeof(int32_t));
    index->mask = capacity - 1;
    return 0;
}

void block_index_free(block_index_t *index) {
    free(index->slots);
    index->slots = NULL;
}

int32_t block_index_find(const block_index_t *index, const block_hash_t *hashes, block_hash_t hash) {
    uint32_t slot = home_slot(index, hash);
    for (; index->slots[slot] >= 0; slot = (slot + 1) & index->mask) {
        if (block_hash_equal(hashes[index->slots[slot]], hash)) return index->slots[slot];
    }
    return -1;
}

void block_index_insert(block_index_t *index, const block_hash_t *hashes, int32_t block) {
    uint32_t slot = home_slot(index, hashes[block]);
    while (index->slots[slot] >= 0) slot = (slot + 1) & index->mask;
    index->slots[slot] = block;
}

void block_index_remove(block_index_t *index, const block_hash_t *hashes, int32_t block) {
    uint32_t hole = home_slot(index, hashes[block]);
    while (index->slots[hole] != block) hole = (hole + 1) & index->mask;
    for (uint32_t slot = (hole + 1) & index->mask; index->slots[slot] >= 0; slot = (slot + 1) & index->mask) {
        uint32_t home = home_slot(index, hashes[index->slots[slot]]);
        /* An entry may move back into the hole only if its home is not in (hole, slot]. */
        if (((slot - home) & index->mask) >= ((slot - hole) & index->mask)) {
            index->slots[hole] = index->slots[slot];
            hole = slot;
        }
    }
    index->slots[hole] = -1;
}
