/* Open-addressing table from a non-negative 64-bit handle to a small index; grows by itself. */
#ifndef BATON_HANDLE_MAP_H
#define BATON_HANDLE_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t handle; /* -1: empty */
    int32_t index;
} handle_entry_t;

typedef struct {
    handle_entry_t *entries;
    size_t mask; /* number of entries - 1 */
    size_t count;
} handle_map_t;

int handle_map_init(handle_map_t *map);
void handle_map_free(handle_map_t *map);

/* Returns the index stored for the handle, or -1. */
int32_t handle_map_find(const handle_map_t *map, int64_t handle);

/* The handle must not be in the map. Returns 0, or -1 without memory (and changes nothing). */
int handle_map_insert(handle_map_t *map, int64_t handle, int32_t index);

/* The handle must be in the map. */
void handle_map_remove(handle_map_t *map, int64_t handle);

/* A bijection of 64-bit values that spreads neighbours (the finalizer of splitmix64). */
static inline uint64_t mix64(uint64_t value) {
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

#endif
