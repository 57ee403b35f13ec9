#include <string.h>

#include "block_pool.h"
#include "driver.h"

#define NUM_BLOCKS 40
#define NUM_CHAINS 6
#define MAX_LENGTH 8

typedef struct {
    int32_t ids[MAX_LENGTH];
    int32_t length, chain;
} table_t;

static block_hash_t chain_hash(int32_t chain, int32_t position) {
    return (block_hash_t){(uint64_t)(position < 2 ? chain / 2 : chain), (uint64_t)position};
}

static void start(block_pool_t *pool, table_t *table) {
    block_hash_t hashes[MAX_LENGTH];
    table->chain = (int32_t)draw(NUM_CHAINS);
    table->length = 1 + (int32_t)draw(MAX_LENGTH);
    for (int32_t i = 0; i < table->length; i++) hashes[i] = chain_hash(table->chain, i);
    size_t count = block_pool_match(pool, (const uint8_t *)hashes, (size_t)table->length);
    EXPECT(block_pool_acquire(pool, (const uint8_t *)hashes, count, table->ids) == POOL_OK);
    int32_t missing = table->length - (int32_t)count, culprit;
    if (block_pool_allocate(pool, missing, table->ids + count) == POOL_OK) return;
    EXPECT(missing > block_pool_num_free(pool));
    EXPECT(block_pool_release(pool, table->ids, count, &culprit) == POOL_OK);
    table->length = 0;
}

static void publish(block_pool_t *pool, const table_t *table) {
    int is_canonical;
    for (int32_t i = 0; i < table->length; i++) {
        int32_t parent = i ? table->ids[i - 1] : -1;
        EXPECT(block_pool_publish(pool, table->ids[i], chain_hash(table->chain, i), parent, &is_canonical) == POOL_OK);
    }
}

static void misuse(block_pool_t *pool) {
    int32_t ids[3] = {(int32_t)draw(NUM_BLOCKS), -1, NUM_BLOCKS}, culprit;
    int32_t num_free = block_pool_num_free(pool);
    EXPECT(block_pool_release(pool, ids, 2, &culprit) == POOL_UNKNOWN_BLOCK && culprit == -1);
    EXPECT(block_pool_retain(pool, ids + 2, 1, &culprit) == POOL_UNKNOWN_BLOCK && culprit == NUM_BLOCKS);
    if (pool->blocks[ids[0]].ref_count == 0) EXPECT(block_pool_release(pool, ids, 1, &culprit) == POOL_NOT_HELD);
    EXPECT(num_free == block_pool_num_free(pool));
}

static void plant_faults(block_pool_t *pool) {
    int32_t ids[4], culprit, is_canonical;
    block_pool_clear_cache(pool);
    EXPECT(block_pool_allocate(pool, 4, ids) == POOL_OK);
    for (int32_t i = 0; i < 3; i++)
        block_pool_publish(pool, ids[i], chain_hash(0, i), i ? ids[i - 1] : -1, &is_canonical);
    pool_block_t *parent = &pool->blocks[ids[0]], *child = &pool->blocks[ids[1]], *plain = &pool->blocks[ids[3]];
    EXPECT_FOUND(plain->ref_count, 0, block_pool_check(pool));
    EXPECT_FOUND(plain->ref_count, -1, block_pool_check(pool));
    EXPECT_FOUND(plain->is_published, 1, block_pool_check(pool));
    EXPECT_FOUND(parent->is_published, 0, block_pool_check(pool));
    EXPECT_FOUND(parent->num_children, 0, block_pool_check(pool));
    EXPECT_FOUND(parent->num_held_children, 2, block_pool_check(pool));
    EXPECT_FOUND(child->parent, ids[3], block_pool_check(pool));
    EXPECT_FOUND(child->parent, NUM_BLOCKS, block_pool_check(pool));
    EXPECT_FOUND(pool->hashes[ids[1]].hi, 99, block_pool_check(pool));
    EXPECT_FOUND(pool->num_cached, 2, block_pool_check(pool));
    EXPECT_FOUND(pool->fresh.count, pool->fresh.count - 1, block_pool_check(pool));
    EXPECT_FOUND(pool->fresh.tail, ids[0], block_pool_check(pool));
    EXPECT(block_pool_release(pool, ids, 1, &culprit) == POOL_CHILD_HELD && culprit == ids[0]);
    EXPECT(block_pool_release(pool, ids, 4, &culprit) == POOL_OK);
    EXPECT_FOUND(pool->blocks[pool->cached.head].next, -1, block_pool_check(pool));
}

void drive_block_pool(void) {
    block_pool_t pool;
    table_t tables[10] = {0};
    int32_t culprit;
    EXPECT(block_pool_init(&pool, NUM_BLOCKS) == 0);
    for (int round = 0; round < 30000; round++) {
        table_t *table = &tables[draw(10)];
        if (table->length == 0) start(&pool, table);
        else if (draw(2)) publish(&pool, table);
        else {
            EXPECT(block_pool_release(&pool, table->ids, (size_t)table->length, &culprit) == POOL_OK);
            table->length = 0;
        }
        if (draw(20) == 0) misuse(&pool);
        if (draw(200) == 0) block_pool_clear_cache(&pool);
        if (draw(50) == 0) pool.num_evicted = 0;
        EXPECT_SOUND(block_pool_check(&pool));
    }
    for (int i = 0; i < 10; i++)
        EXPECT(block_pool_release(&pool, tables[i].ids, (size_t)tables[i].length, &culprit) == POOL_OK);
    EXPECT(block_pool_num_free(&pool) == NUM_BLOCKS);
    plant_faults(&pool);
    block_pool_free(&pool);
}
