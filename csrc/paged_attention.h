/* Causal grouped-query attention of float32 queries straight on paged KV memory
 * `[block][kv_layer][plane][slot][kv_head][head_dim]`, for prefill chunks and decodes alike.
 *
 * A query's result depends on its position and on the KV of the positions up to it, and on nothing else: the context
 * is taken in tiles of ATTENTION_TILE slots and spans of ATTENTION_SPAN slots counted from position 0, so the same
 * numbers come out, bit for bit, however a prompt is cut into chunks and whatever is computed beside it. */
#ifndef BATON_PAGED_ATTENTION_H
#define BATON_PAGED_ATTENTION_H

#include <stdint.h>

#include "instruction_set.h"

enum {
    ATTENTION_TILE = 64,     /* slots whose scores are computed together */
    ATTENTION_SPAN = 512,    /* slots after which sums are merged: what one task of a decode computes */
    ATTENTION_ROWS = 48,     /* query rows (tokens × heads of one group) in one task, at most */
    ATTENTION_MAX_DIM = 256  /* of a head; a multiple of 16 */
};

struct kv_memory {
    float *layer;        /* keys of block 0 in the KV layer at hand */
    long block_stride;   /* floats from a block to the next */
    long plane_stride;   /* floats from keys to values */
    long block_size;     /* slots */
    long num_kv_heads;
    long head_dim;
};

struct attention_segment {
    int64_t row;        /* first row of the batch */
    int64_t num_tokens; /* rows: positions [start, start + num_tokens) */
    int64_t start;
    int64_t table;      /* where its block table begins in `tables` */
};

struct attention_call {
    enum instruction_set set;
    struct kv_memory kv;
    const float *queries; /* [num_rows][query_stride], heads of a row adjacent */
    long query_stride;
    float *output; /* [num_rows][output_stride], num_heads * head_dim of a row are used */
    long output_stride;
    long num_heads;
    float scale;
    const struct attention_segment *segments;
    long num_segments;
    const int32_t *tables;
    int num_threads;
};

/* 0, or -1 when there is no memory for the task list. */
int attention_run(const struct attention_call *call);

struct rope_call {
    enum instruction_set set;
    struct kv_memory kv;
    float *qkv; /* [num_rows][qkv_stride]: query heads, key heads, value heads; queries are rotated in place */
    long qkv_stride;
    long num_heads;
    const float *table;       /* [max_len][head_dim]: cosines, then sines */
    const int64_t *positions; /* [num_rows] */
    const int64_t *slots;     /* [num_rows]: block * block_size + slot */
    const float *q_norm, *k_norm; /* [head_dim], or NULL: an RMS norm of each head before it is rotated */
    float epsilon;
    long num_rows;
    int num_threads;
};

/* Rotates queries and keys by their positions and stores keys and values in their slots. */
void rope_store_run(const struct rope_call *call);

#endif
