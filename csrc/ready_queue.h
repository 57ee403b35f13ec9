/* What waits, in the order (class, virtual start, arrival, handle), and the first of it that fits.
 *
 * Entries are split into cells: one for each pair of the two demands' bit lengths. Each cell is a treap: a search tree by
 * that order, a heap by a priority that is a function of the handle, so its shape depends on its content alone. A node
 * knows the minimum of both demands below it. A search asks only cells whose smallest demands fit; where the limit cuts
 * through a cell in one demand, the minima lead to the first that fits. So it costs a path for each such cell, however
 * many wait; only in the one cell within a factor of two of both limits can a node be visited in vain. */
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

#define QUEUE_NUM_BUCKETS 64 /* bit lengths 0 to 63; demands of zero and less share bucket 0 */

typedef struct {
    queue_node_t *nodes;
    int32_t capacity;
    int32_t num_used;  /* nodes ever handed out; beyond it the array is blank */
    int32_t free_head; /* given-back nodes, linked through `left` */
    int64_t num_visited; /* nodes that the last search looked at */
    handle_map_t map;    /* handle -> node */
    int32_t (*roots)[QUEUE_NUM_BUCKETS];       /* [bucket of a][bucket of b] -> root of the cell, -1 when empty */
    uint64_t filled_rows;                      /* bit a: some cell [a][*] is not empty */
    uint64_t filled_cells[QUEUE_NUM_BUCKETS];  /* bit b of entry a: cell [a][b] is not empty */
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

/* First node whose demands are at most max_a and max_b, strictly after `after` in order (NULL: from the start); -1 if
 * there is none. */
int32_t ready_queue_first_fit(ready_queue_t *queue, int64_t max_a, int64_t max_b, const queue_key_t *after);

/* Writes all nodes, in no order across cells; `ids` has room for the count. */
void ready_queue_list(const ready_queue_t *queue, int32_t *ids);

void ready_queue_set_demand(ready_queue_t *queue, int32_t node, int64_t demand_a, int64_t demand_b);

/* NULL, or what is wrong. */
const char *ready_queue_check(const ready_queue_t *queue);

#endif
