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
    queue->root = queue->free_head = NONE;
    return handle_map_init(&queue->map);
}

void ready_queue_free(ready_queue_t *queue) {
    free(queue->nodes);
    queue->nodes = NULL;
    handle_map_free(&queue->map);
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

/* Puts `child` where `old` hangs below `parent` (NONE: at the root). */
static void replace_child(ready_queue_t *queue, int32_t parent, int32_t old, int32_t child) {
    if (parent == NONE) queue->root = child;
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
    int32_t parent = NONE, at = queue->root, goes_left = 0;
    while (at != NONE) {
        parent = at;
        goes_left = key_less(&nodes[id].key, &nodes[at].key);
        at = goes_left ? nodes[at].left : nodes[at].right;
    }
    nodes[id].parent = parent;
    if (parent == NONE) queue->root = id;
    else if (goes_left) nodes[parent].left = id;
    else nodes[parent].right = id;
}

int ready_queue_push(ready_queue_t *queue, queue_key_t key, int64_t demand_a, int64_t demand_b) {
    int32_t id = take_node(queue);
    if (id == NONE) return -1;
    if (handle_map_insert(&queue->map, key.handle, id) < 0) {
        give_node(queue, id);
        return -1;
    }
    queue->nodes[id] = (queue_node_t){
        .key = key,
        .demand_a = demand_a, .demand_b = demand_b, .min_a = demand_a, .min_b = demand_b,
        .priority = mix64((uint64_t)key.handle),
        .left = NONE, .right = NONE, .parent = NONE,
    };
    link_leaf(queue, id);
    while (queue->nodes[id].parent != NONE &&
           queue->nodes[id].priority > queue->nodes[queue->nodes[id].parent].priority) {
        rotate_up(queue, id);
    }
    refresh_path(queue, queue->nodes[id].parent);
    return 0;
}

int ready_queue_remove(ready_queue_t *queue, int64_t handle) {
    int32_t id = ready_queue_find(queue, handle);
    if (id == NONE) return 0;
    queue_node_t *nodes = queue->nodes;
    while (nodes[id].left != NONE && nodes[id].right != NONE) {
        int32_t left = nodes[id].left, right = nodes[id].right;
        rotate_up(queue, nodes[left].priority > nodes[right].priority ? left : right);
    }
    int32_t child = nodes[id].left != NONE ? nodes[id].left : nodes[id].right;
    int32_t parent = nodes[id].parent;
    replace_child(queue, parent, id, child);
    handle_map_remove(&queue->map, handle);
    give_node(queue, id);
    refresh_path(queue, parent);
    return 1;
}

static int32_t leftmost(const queue_node_t *nodes, int32_t id) {
    while (id != NONE && nodes[id].left != NONE) id = nodes[id].left;
    return id;
}

int32_t ready_queue_first(const ready_queue_t *queue) { return leftmost(queue->nodes, queue->root); }

int32_t ready_queue_next(const ready_queue_t *queue, int32_t id) {
    const queue_node_t *nodes = queue->nodes;
    if (nodes[id].right != NONE) return leftmost(nodes, nodes[id].right);
    while (nodes[id].parent != NONE && nodes[nodes[id].parent].right == id) id = nodes[id].parent;
    return nodes[id].parent;
}

static int fits(const queue_node_t *node, int64_t max_a, int64_t max_b) {
    return node->demand_a <= max_a && node->demand_b <= max_b;
}

/* First in order within one subtree that fits. */
static int32_t search_below(ready_queue_t *queue, int32_t id, int64_t max_a, int64_t max_b) {
    while (id != NONE) {
        const queue_node_t *node = &queue->nodes[id];
        queue->num_visited++;
        if (node->min_a > max_a || node->min_b > max_b) return NONE;
        int32_t found = search_below(queue, node->left, max_a, max_b);
        if (found != NONE) return found;
        if (fits(node, max_a, max_b)) return id;
        id = node->right;
    }
    return NONE;
}

int32_t ready_queue_first_fit(ready_queue_t *queue, int64_t max_a, int64_t max_b, int32_t after) {
    queue->num_visited = 0;
    if (after == NONE) return search_below(queue, queue->root, max_a, max_b);
    const queue_node_t *nodes = queue->nodes;
    int32_t found = search_below(queue, nodes[after].right, max_a, max_b);
    /* What comes after a left child: its parent, then the parent's right subtree, and so on upwards. */
    for (int32_t id = after; found == NONE && nodes[id].parent != NONE; id = nodes[id].parent) {
        int32_t parent = nodes[id].parent;
        if (nodes[parent].left != id) continue;
        queue->num_visited++;
        if (fits(&nodes[parent], max_a, max_b)) return parent;
        found = search_below(queue, nodes[parent].right, max_a, max_b);
    }
    return found;
}

void ready_queue_set_demand(ready_queue_t *queue, int32_t id, int64_t demand_a, int64_t demand_b) {
    queue->nodes[id].demand_a = demand_a;
    queue->nodes[id].demand_b = demand_b;
    refresh_path(queue, id);
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

const char *ready_queue_check(const ready_queue_t *queue) {
    size_t count = 0;
    int32_t prev = NONE;
    if (queue->root != NONE && queue->nodes[queue->root].parent != NONE) return "the root has a parent";
    for (int32_t id = ready_queue_first(queue); id != NONE; id = ready_queue_next(queue, id)) {
        if (++count > ready_queue_count(queue)) return "the tree holds more nodes than handles";
        if (prev != NONE && !key_less(&queue->nodes[prev].key, &queue->nodes[id].key)) return "two nodes are out of order";
        const char *problem = check_node(queue, id);
        if (problem) return problem;
        prev = id;
    }
    return count == ready_queue_count(queue) ? NULL : "a handle's node is not in the tree";
}
