#include "ready_queue.h"

#include <stdlib.h>
#include <string.h>

#define NONE (-1)

static int key_less(const queue_key_t *a, const queue_key_t *b) {
    if (a->class_rank != b->class_rank) return a->class_rank < b->class_rank;
    if (a->virtual_start != b->virtual_start) return a->virtual_start < b->virtual_start;
    if (a->arrival != b->arrival) return a->arrival < b->arrival;
    return a->handle < b->handle;
}

int ready_queue_init(ready_queue_t *queue) {
    memset(queue, 0, sizeof(*queue));
    queue->free_head = NONE;
    queue->roots = malloc(QUEUE_NUM_BUCKETS * sizeof(*queue->roots));
    if (!queue->roots || handle_map_init(&queue->map) < 0) return -1;
    memset(queue->roots, 0xff, QUEUE_NUM_BUCKETS * sizeof(*queue->roots));
    return 0;
}

void ready_queue_free(ready_queue_t *queue) {
    free(queue->nodes);
    free(queue->roots);
    queue->nodes = NULL;
    queue->roots = NULL;
    handle_map_free(&queue->map);
}

/* The number of bits of a positive demand; the demands of bucket k start at 2^(k-1). */
static int bucket(int64_t demand) { return demand <= 0 ? 0 : 64 - __builtin_clzll((unsigned long long)demand); }

static int32_t *cell_of(const ready_queue_t *queue, const queue_node_t *node) {
    return &queue->roots[bucket(node->demand_a)][bucket(node->demand_b)];
}

/* Keeps the bits of one cell in step with whether it holds anything. */
static void mark_cell(ready_queue_t *queue, int a, int b) {
    uint64_t bit = (uint64_t)1 << b;
    if (queue->roots[a][b] == NONE) queue->filled_cells[a] &= ~bit;
    else queue->filled_cells[a] |= bit;
    if (queue->filled_cells[a]) queue->filled_rows |= (uint64_t)1 << a;
    else queue->filled_rows &= ~((uint64_t)1 << a);
}

/* Recomputes the minima of one node from its own demands and its children's minima. Returns whether they changed. */
static int refresh(queue_node_t *nodes, int32_t id) {
    queue_node_t *node = &nodes[id];
    int64_t min_a = node->demand_a, min_b = node->demand_b;
    for (int side = 0; side < 2; side++) {
        int32_t child = side ? node->right : node->left;
        if (child == NONE) continue;
        if (nodes[child].min_a < min_a) min_a = nodes[child].min_a;
        if (nodes[child].min_b < min_b) min_b = nodes[child].min_b;
    }
    int changed = min_a != node->min_a || min_b != node->min_b;
    node->min_a = min_a;
    node->min_b = min_b;
    return changed;
}

/* Puts `child` where `old` hangs below `parent` (NONE: at the root of its cell). */
static void replace_child(ready_queue_t *queue, int32_t parent, int32_t old, int32_t child) {
    if (parent == NONE) *cell_of(queue, &queue->nodes[old]) = child;
    else if (queue->nodes[parent].left == old) queue->nodes[parent].left = child;
    else queue->nodes[parent].right = child;
    if (child != NONE) queue->nodes[child].parent = parent;
}

/* Swaps a node with its parent, keeping the order:  parent(id(a, b), c)  <->  id(a, parent(b, c)). */
static void rotate_up(ready_queue_t *queue, int32_t id) {
    queue_node_t *nodes = queue->nodes;
    int32_t parent = nodes[id].parent, inner;
    replace_child(queue, nodes[parent].parent, parent, id);
    if (nodes[parent].left == id) {
        inner = nodes[id].right;
        nodes[parent].left = inner;
        nodes[id].right = parent;
    } else {
        inner = nodes[id].left;
        nodes[parent].right = inner;
        nodes[id].left = parent;
    }
    if (inner != NONE) nodes[inner].parent = parent;
    nodes[parent].parent = id;
    refresh(nodes, parent);
    refresh(nodes, id);
}

static void refresh_path(ready_queue_t *queue, int32_t id) {
    for (; id != NONE && refresh(queue->nodes, id); id = queue->nodes[id].parent) {}
}

static int32_t take_node(ready_queue_t *queue) {
    if (queue->free_head != NONE) {
        int32_t id = queue->free_head;
        queue->free_head = queue->nodes[id].left;
        return id;
    }
    if (queue->num_used == queue->capacity) {
        if (queue->capacity > INT32_MAX / 2) return NONE;
        int32_t capacity = queue->capacity ? 2 * queue->capacity : 64;
        queue_node_t *grown = realloc(queue->nodes, (size_t)capacity * sizeof(queue_node_t));
        if (!grown) return NONE;
        queue->nodes = grown;
        queue->capacity = capacity;
    }
    return queue->num_used++;
}

static void give_node(ready_queue_t *queue, int32_t id) {
    queue->nodes[id].left = queue->free_head;
    queue->free_head = id;
}

static void link_leaf(ready_queue_t *queue, int32_t id) {
    queue_node_t *nodes = queue->nodes;
    int32_t *root = cell_of(queue, &nodes[id]), parent = NONE, goes_left = 0;
    for (int32_t at = *root; at != NONE; at = goes_left ? nodes[at].left : nodes[at].right) {
        parent = at;
        goes_left = key_less(&nodes[id].key, &nodes[at].key);
    }
    nodes[id].parent = parent;
    if (parent == NONE) *root = id;
    else if (goes_left) nodes[parent].left = id;
    else nodes[parent].right = id;
}

/* Puts a node that is in no cell into the cell of its demands. */
static void link_node(ready_queue_t *queue, int32_t id) {
    queue_node_t *node = &queue->nodes[id];
    node->min_a = node->demand_a;
    node->min_b = node->demand_b;
    node->left = node->right = NONE;
    link_leaf(queue, id);
    while (node->parent != NONE && node->priority > queue->nodes[node->parent].priority) rotate_up(queue, id);
    refresh_path(queue, node->parent);
    mark_cell(queue, bucket(node->demand_a), bucket(node->demand_b));
}

static void unlink_node(ready_queue_t *queue, int32_t id) {
    queue_node_t *nodes = queue->nodes;
    while (nodes[id].left != NONE && nodes[id].right != NONE) {
        int32_t left = nodes[id].left, right = nodes[id].right;
        rotate_up(queue, nodes[left].priority > nodes[right].priority ? left : right);
    }
    int32_t child = nodes[id].left != NONE ? nodes[id].left : nodes[id].right;
    int32_t parent = nodes[id].parent;
    replace_child(queue, parent, id, child);
    refresh_path(queue, parent);
    mark_cell(queue, bucket(nodes[id].demand_a), bucket(nodes[id].demand_b));
}

int ready_queue_push(ready_queue_t *queue, queue_key_t key, int64_t demand_a, int64_t demand_b) {
    int32_t id = take_node(queue);
    if (id == NONE) return -1;
    if (handle_map_insert(&queue->map, key.handle, id) < 0) {
        give_node(queue, id);
        return -1;
    }
    queue_node_t *node = &queue->nodes[id];
    node->key = key;
    node->demand_a = demand_a;
    node->demand_b = demand_b;
    node->priority = mix64((uint64_t)key.handle);
    link_node(queue, id);
    return 0;
}

int ready_queue_remove(ready_queue_t *queue, int64_t handle) {
    int32_t id = ready_queue_find(queue, handle);
    if (id == NONE) return 0;
    unlink_node(queue, id);
    handle_map_remove(&queue->map, handle);
    give_node(queue, id);
    return 1;
}

void ready_queue_set_demand(ready_queue_t *queue, int32_t id, int64_t demand_a, int64_t demand_b) {
    unlink_node(queue, id);
    queue->nodes[id].demand_a = demand_a;
    queue->nodes[id].demand_b = demand_b;
    link_node(queue, id);
}

/* First in order below `id` that fits and comes after `after`, if that is not NULL. */
static int32_t search_below(ready_queue_t *queue, int32_t id, int64_t max_a, int64_t max_b, const queue_key_t *after) {
    while (id != NONE) {
        const queue_node_t *node = &queue->nodes[id];
        queue->num_visited++;
        if (node->min_a > max_a || node->min_b > max_b) return NONE;
        if (!after || key_less(after, &node->key)) {
            int32_t found = search_below(queue, node->left, max_a, max_b, after);
            if (found != NONE) return found;
            if (node->demand_a <= max_a && node->demand_b <= max_b) return id;
            after = NULL; /* everything to the right comes after this node */
        }
        id = node->right;
    }
    return NONE;
}

/* The bits 0 to `last` of a word. */
static uint64_t bits_up_to(int last) { return UINT64_MAX >> (63 - last); }

int32_t ready_queue_first_fit(ready_queue_t *queue, int64_t max_a, int64_t max_b, const queue_key_t *after) {
    int32_t best = NONE;
    queue->num_visited = 0;
    for (uint64_t rows = queue->filled_rows & bits_up_to(bucket(max_a)); rows; rows &= rows - 1) {
        int a = __builtin_ctzll(rows);
        for (uint64_t cells = queue->filled_cells[a] & bits_up_to(bucket(max_b)); cells; cells &= cells - 1) {
            int32_t found = search_below(queue, queue->roots[a][__builtin_ctzll(cells)], max_a, max_b, after);
            if (found == NONE) continue;
            if (best == NONE || key_less(&queue->nodes[found].key, &queue->nodes[best].key)) best = found;
        }
    }
    return best;
}

static int32_t leftmost(const queue_node_t *nodes, int32_t id) {
    while (id != NONE && nodes[id].left != NONE) id = nodes[id].left;
    return id;
}

/* The node that follows in the order of its own cell, or NONE. */
static int32_t next_in_cell(const queue_node_t *nodes, int32_t id) {
    if (nodes[id].right != NONE) return leftmost(nodes, nodes[id].right);
    while (nodes[id].parent != NONE && nodes[nodes[id].parent].right == id) id = nodes[id].parent;
    return nodes[id].parent;
}

void ready_queue_list(const ready_queue_t *queue, int32_t *ids) {
    for (int cell = 0; cell < QUEUE_NUM_BUCKETS * QUEUE_NUM_BUCKETS; cell++) {
        int32_t id = leftmost(queue->nodes, queue->roots[cell / QUEUE_NUM_BUCKETS][cell % QUEUE_NUM_BUCKETS]);
        for (; id != NONE; id = next_in_cell(queue->nodes, id)) *ids++ = id;
    }
}

static const char *check_node(const ready_queue_t *queue, int32_t id) {
    const queue_node_t *nodes = queue->nodes, *node = &nodes[id];
    int64_t min_a = node->demand_a, min_b = node->demand_b;
    int32_t children[2] = {node->left, node->right};
    for (int side = 0; side < 2; side++) {
        int32_t child = children[side];
        if (child == NONE) continue;
        if (nodes[child].parent != id) return "a child does not know its parent";
        if (nodes[child].priority > node->priority) return "a child has a greater priority than its parent";
        if (nodes[child].min_a < min_a) min_a = nodes[child].min_a;
        if (nodes[child].min_b < min_b) min_b = nodes[child].min_b;
    }
    if (min_a != node->min_a || min_b != node->min_b) return "a subtree's minimum demand is wrong";
    if (ready_queue_find(queue, node->key.handle) != id) return "a handle does not lead to its node";
    return NULL;
}

/* Walks one cell in order, adding its nodes to `*count`. */
static const char *check_cell(const ready_queue_t *queue, int a, int b, size_t *count) {
    const queue_node_t *nodes = queue->nodes;
    int32_t root = queue->roots[a][b], prev = NONE;
    if (((queue->filled_cells[a] >> b) & 1) != (root != NONE)) return "a cell's bit does not say whether it is empty";
    if (root != NONE && nodes[root].parent != NONE) return "a root has a parent";
    for (int32_t id = leftmost(nodes, root); id != NONE; id = next_in_cell(nodes, id)) {
        if (++*count > ready_queue_count(queue)) return "the cells hold more nodes than there are handles";
        if (bucket(nodes[id].demand_a) != a || bucket(nodes[id].demand_b) != b) return "a node lies in the wrong cell";
        if (prev != NONE && !key_less(&nodes[prev].key, &nodes[id].key)) return "two nodes are out of order";
        const char *problem = check_node(queue, id);
        if (problem) return problem;
        prev = id;
    }
    return NULL;
}

const char *ready_queue_check(const ready_queue_t *queue) {
    size_t count = 0;
    for (int a = 0; a < QUEUE_NUM_BUCKETS; a++) {
        if (((queue->filled_rows >> a) & 1) != (queue->filled_cells[a] != 0))
            return "a row's bit does not say whether it is empty";
        for (int b = 0; b < QUEUE_NUM_BUCKETS; b++) {
            const char *problem = check_cell(queue, a, b, &count);
            if (problem) return problem;
        }
    }
    return count == ready_queue_count(queue) ? NULL : "a handle's node is in no cell";
}
