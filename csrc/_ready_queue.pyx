"""Python types around ready_queue.c; `baton.core.kv.ready_queue` documents the interface."""

from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from _c_ready_queue cimport *


cdef class ReadyQueue:
    cdef ready_queue_t queue

    def __cinit__(self):
        if ready_queue_init(&self.queue) < 0:
            raise MemoryError

    def __dealloc__(self):
        ready_queue_free(&self.queue)

    def __len__(self):
        return ready_queue_count(&self.queue)

    def __contains__(self, int64_t handle):
        return ready_queue_find(&self.queue, handle) >= 0

    @property
    def num_visited(self):
        return self.queue.num_visited

    def push(self, int64_t handle, int64_t cls, int64_t vstart, int64_t arrival, int64_t demand_a, int64_t demand_b):
        if handle < 0:
            raise ValueError(f"a handle is not negative: {handle}")
        if ready_queue_find(&self.queue, handle) >= 0:
            raise ValueError(f"handle {handle} is in the queue already")
        cdef queue_key_t key = queue_key_t(class_rank=cls, virtual_start=vstart, arrival=arrival, handle=handle)
        if ready_queue_push(&self.queue, key, demand_a, demand_b) < 0:
            raise MemoryError

    def remove(self, int64_t handle):
        return ready_queue_remove(&self.queue, handle) != 0

    def first(self):
        return self.handle_of(ready_queue_first_fit(&self.queue, INT64_MAX, INT64_MAX, NULL))

    def first_fit(self, int64_t max_a, int64_t max_b, int64_t after=-1):
        cdef const queue_key_t *start = NULL
        if after != -1:
            start = &self.queue.nodes[self.node_of(after)].key
        return self.handle_of(ready_queue_first_fit(&self.queue, max_a, max_b, start))

    def key(self, int64_t handle):
        cdef queue_key_t *key = &self.queue.nodes[self.node_of(handle)].key
        return (key.class_rank, key.virtual_start, key.arrival)

    def demand(self, int64_t handle):
        cdef queue_node_t *node = &self.queue.nodes[self.node_of(handle)]
        return (node.demand_a, node.demand_b)

    def set_demand(self, int64_t handle, int64_t demand_a, int64_t demand_b):
        ready_queue_set_demand(&self.queue, self.node_of(handle), demand_a, demand_b)

    def handles(self):
        cdef Py_ssize_t count = ready_queue_count(&self.queue), position
        cdef bytearray packed = bytearray(count * sizeof(int32_t))
        cdef int32_t *nodes = <int32_t *> PyByteArray_AS_STRING(packed)
        cdef list keys = []
        cdef queue_key_t *key
        ready_queue_list(&self.queue, nodes)
        for position in range(count):
            key = &self.queue.nodes[nodes[position]].key
            keys.append((key.class_rank, key.virtual_start, key.arrival, key.handle))
        keys.sort()
        return [handle for _, _, _, handle in keys]

    def check_invariants(self):
        cdef const char *problem = ready_queue_check(&self.queue)
        if problem != NULL:
            raise RuntimeError(problem.decode("ascii"))

    cdef int64_t handle_of(self, int32_t node) noexcept:
        return -1 if node < 0 else self.queue.nodes[node].key.handle

    cdef int32_t node_of(self, int64_t handle) except -1:
        cdef int32_t node = ready_queue_find(&self.queue, handle)
        if node < 0:
            raise KeyError(handle)
        return node
