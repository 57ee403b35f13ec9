"""What `_ready_queue.pyx` needs of ready_queue.h."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t


cdef extern from "ready_queue.h" nogil:
    ctypedef struct queue_key_t:
        int64_t class_rank
        int64_t virtual_start
        int64_t arrival
        int64_t handle

    ctypedef struct queue_node_t:
        queue_key_t key
        int64_t demand_a
        int64_t demand_b

    ctypedef struct ready_queue_t:
        queue_node_t *nodes
        int64_t num_visited

    int ready_queue_init(ready_queue_t *queue)
    void ready_queue_free(ready_queue_t *queue)
    size_t ready_queue_count(const ready_queue_t *queue)
    int32_t ready_queue_find(const ready_queue_t *queue, int64_t handle)
    int ready_queue_push(ready_queue_t *queue, queue_key_t key, int64_t demand_a, int64_t demand_b)
    int ready_queue_remove(ready_queue_t *queue, int64_t handle)
    int32_t ready_queue_first_fit(ready_queue_t *queue, int64_t max_a, int64_t max_b, const queue_key_t *after)
    void ready_queue_list(const ready_queue_t *queue, int32_t *ids)
    void ready_queue_set_demand(ready_queue_t *queue, int32_t node, int64_t demand_a, int64_t demand_b)
    const char *ready_queue_check(const ready_queue_t *queue)
