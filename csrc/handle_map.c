#include "handle_map.h"

#include <stdlib.h>

static handle_entry_t *new_entries(size_t capacity) {
    handle_entry_t *entries = malloc(capacity * sizeof(handle_entry_t));
    for (size_t i = 0; entries && i < capacity; i++) entries[i].handle = -1;
    return entries;
}

static size_t home_slot(const handle_map_t *map, int64_t handle) { return mix64((uint64_t)handle) & map->mask; }

static void place(handle_map_t *map, handle_entry_t entry) {
    size_t slot = home_slot(map, entry.handle);
    while (map->entries[slot].handle >= 0) slot = (slot + 1) & map->mask;
    map->entries[slot] = entry;
}

int handle_map_init(handle_map_t *map) {
    map->count = 0;
    map->mask = 15;
    map->entries = new_entries(map->mask + 1);
    return map->entries ? 0 : -1;
}

void handle_map_free(handle_map_t *map) {
    free(map->entries);
    map->entries = NULL;
}

int32_t handle_map_find(const handle_map_t *map, int64_t handle) {
    size_t slot = home_slot(map, handle);
    for (; map->entries[slot].handle >= 0; slot = (slot + 1) & map->mask) {
        if (map->entries[slot].handle == handle) return map->entries[slot].index;
    }
    return -1;
}

static int grow(handle_map_t *map) {
    handle_entry_t *old = map->entries;
    size_t old_capacity = map->mask + 1;
    handle_entry_t *entries = new_entries(2 * old_capacity);
    if (!entries) return -1;
    map->entries = entries;
    map->mask = 2 * old_capacity - 1;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].handle >= 0) place(map, old[i]);
    }
    free(old);
    return 0;
}

int handle_map_insert(handle_map_t *map, int64_t handle, int32_t index) {
    if (2 * (map->count + 1) > map->mask && grow(map) < 0) return -1;
    place(map, (handle_entry_t){handle, index});
    map->count++;
    return 0;
}

void handle_map_remove(handle_map_t *map, int64_t handle) {
    size_t hole = home_slot(map, handle);
    while (map->entries[hole].handle != handle) hole = (hole + 1) & map->mask;
    for (size_t slot = (hole + 1) & map->mask; map->entries[slot].handle >= 0; slot = (slot + 1) & map->mask) {
        size_t home = home_slot(map, map->entries[slot].handle);
        /* An entry may move back into the hole only if its home is not in (hole, slot]. */
        if (((slot - home) & map->mask) >= ((slot - hole) & map->mask)) {
            map->entries[hole] = map->entries[slot];
            hole = slot;
        }
    }
    map->entries[hole].handle = -1;
    map->count--;
}
