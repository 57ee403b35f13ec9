/* What waits, in the order (class, virtual start, arrival, handle), and the first of it that fits.
 *
 * A treap: a search tree by that order, a heap by a priority that is a function of the handle, so its shape depends on
 * its content alone. Each node knows the minimum of both demands below it, which lets a search skip whole subtrees
 * that do not fit. The search is O(log n) whenever one of the two demands is what does not fit; a subtree is entered in
 * vain only if it holds one node with a small first and another with a small second demand, and none with both. */
#ifndef BATON_READY_QUEUE_H
#define BATON_READY_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "handle_map.h"

typedef struct {
    int64_t class_rank, virtual_start, arrival, handle;
} queue_key_t;

typedef struct {
    queue_key_t key;
    int64_t demand_a, demand_b;
    int64_t min_a, min_b; /* minima over this node and everything below it */
    uint64_t priority;    /* greater than or equal to its children's */
    int32_t left, right, parent;
} queue_node_t;

typedef struct {
    queue_node_t *nodes;
    int32_t capacity;
    int32_t num_used;  /* nodes ever handed out; beyond it the array is blank */
    int32_t free_head; /* given-back nodes, linked through `left` */
    int32_t root;
    int64_t num_visited; /* nodes that the last search looked at */
    handle_map_t map;    /* handle -> node */
} ready_queue_t;

int ready_queue_init(ready_queue_t *queue);
void ready_queue_free(ready_queue_t *queue);

static inline size_t ready_queue_count(const ready_queue_t *queue) { return queue->map.count; }

/* Returns the handle's node, or -1. */
static inline int32_t ready_queue_find(const ready_queue_t *queue, int64_t handle) {
    return handle < 0 ? -1 : handle_map_find(&queue->map, handle);
}

/* The handle must be non-negative and not in the queue. Returns 0, or -1 without memory (and changes nothing). */
int ready_queue_push(ready_queue_t *queue, queue_key_t key, int64_t demand_a, int64_t demand_b);

/* Returns 1, or 0 if the handle is not in the queue. */
int ready_queue_remove(ready_queue_t *queue, int64_t handle);

/* First node in order, or the one after `node`; -1 if there is none. */
int32_t ready_queue_first(const ready_queue_t *queue);
int32_t ready_queue_next(const ready_queue_t *queue, int32_t node);

/* First node after `node` (-1: from the start) whose demands are at most max_a and max_b; -1 if there is none. */
int32_t ready_queue_first_fit(ready_queue_t *queue, int64_t max_a, int64_t max_b, int32_t node);

void ready_queue_set_demand(ready_queue_t *queue, int32_t node, int64_t demand_a, int64_t demand_b);

/* NULL, or what is wrong. */
const char *ready_queue_check(const ready_queue_t *queue);

#endif
