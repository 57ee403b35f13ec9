#include "driver.h"
#include "ready_queue.h"

#define NUM_HANDLES 300

static int key_less(queue_key_t a, queue_key_t b) {
    int64_t left[4] = {a.class_rank, a.virtual_start, a.arrival, a.handle};
    int64_t right[4] = {b.class_rank, b.virtual_start, b.arrival, b.handle};
    for (int i = 0; i < 4; i++) {
        if (left[i] != right[i]) return left[i] < right[i];
    }
    return 0;
}

static int32_t slow_first_fit(const ready_queue_t *queue, int64_t max_a, int64_t max_b, const queue_key_t *after) {
    int32_t ids[NUM_HANDLES], best = -1;
    ready_queue_list(queue, ids);
    for (size_t i = 0; i < ready_queue_count(queue); i++) {
        const queue_node_t *node = &queue->nodes[ids[i]];
        if (node->demand_a > max_a || node->demand_b > max_b || (after && !key_less(*after, node->key))) continue;
        if (best < 0 || key_less(node->key, queue->nodes[best].key)) best = ids[i];
    }
    return best;
}

static queue_node_t *root_with_left_child(const ready_queue_t *queue) {
    for (int cell = 0; cell < QUEUE_NUM_BUCKETS * QUEUE_NUM_BUCKETS; cell++) {
        int32_t root = queue->roots[cell / QUEUE_NUM_BUCKETS][cell % QUEUE_NUM_BUCKETS];
        if (root >= 0 && queue->nodes[root].left >= 0) return &queue->nodes[root];
    }
    EXPECT(!"no cell holds two entries");
    return NULL;
}

static void plant_faults(ready_queue_t *queue) {
    queue_node_t *root = root_with_left_child(queue), *left = &queue->nodes[root->left];
    EXPECT_FOUND(queue->filled_rows, 0, ready_queue_check(queue));
    EXPECT_FOUND(queue->filled_cells[63], 1, ready_queue_check(queue));
    EXPECT_FOUND(left->demand_a, left->demand_a * 4 + 4, ready_queue_check(queue));
    EXPECT_FOUND(root->min_a, root->min_a - 1, ready_queue_check(queue));
    EXPECT_FOUND(root->demand_b, -1, ready_queue_check(queue));
    EXPECT_FOUND(root->parent, root->left, ready_queue_check(queue));
    EXPECT_FOUND(left->priority, UINT64_MAX, ready_queue_check(queue));
    EXPECT_FOUND(left->key.class_rank, 99, ready_queue_check(queue));
    EXPECT_FOUND(left->key.handle, NUM_HANDLES + 1, ready_queue_check(queue));
    EXPECT_FOUND(root->left, -1, ready_queue_check(queue));
    EXPECT_FOUND(queue->map.count, queue->map.count + 1, ready_queue_check(queue));
}

void drive_ready_queue(void) {
    ready_queue_t queue;
    EXPECT(ready_queue_init(&queue) == 0);
    for (int round = 0; round < 20000; round++) {
        int64_t handle = draw(NUM_HANDLES);
        int32_t id = ready_queue_find(&queue, handle);
        if (id < 0) {
            queue_key_t key = {draw(3), draw(10), draw(10), handle};
            EXPECT(ready_queue_push(&queue, key, draw(40), draw(4)) == 0);
        } else if (draw(3) == 0) {
            ready_queue_set_demand(&queue, id, draw(40), draw(4));
        } else {
            EXPECT(ready_queue_remove(&queue, handle) == 1 && ready_queue_remove(&queue, handle) == 0);
        }
        int32_t start = ready_queue_find(&queue, draw(NUM_HANDLES));
        const queue_key_t *after = start < 0 ? NULL : &queue.nodes[start].key;
        int64_t max_a = draw(20), max_b = draw(4);
        EXPECT(ready_queue_first_fit(&queue, max_a, max_b, after) == slow_first_fit(&queue, max_a, max_b, after));
        EXPECT_SOUND(ready_queue_check(&queue));
    }
    plant_faults(&queue);
    ready_queue_free(&queue);
}
