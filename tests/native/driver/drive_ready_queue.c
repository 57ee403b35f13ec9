#include "driver.h"
#include "ready_queue.h"

#define NUM_HANDLES 300

static int32_t slow_first_fit(const ready_queue_t *queue, int64_t max_a, int64_t max_b, int32_t after) {
    int32_t id = after < 0 ? ready_queue_first(queue) : ready_queue_next(queue, after);
    while (id >= 0 && (queue->nodes[id].demand_a > max_a || queue->nodes[id].demand_b > max_b))
        id = ready_queue_next(queue, id);
    return id;
}

static void plant_faults(ready_queue_t *queue) {
    queue_node_t *root = &queue->nodes[queue->root], *left = &queue->nodes[root->left];
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
        int32_t after = ready_queue_find(&queue, draw(NUM_HANDLES));
        int64_t max_a = draw(20), max_b = draw(4);
        EXPECT(ready_queue_first_fit(&queue, max_a, max_b, after) == slow_first_fit(&queue, max_a, max_b, after));
        EXPECT_SOUND(ready_queue_check(&queue));
    }
    EXPECT(queue.root >= 0 && queue.nodes[queue.root].left >= 0);
    plant_faults(&queue);
    ready_queue_free(&queue);
}
