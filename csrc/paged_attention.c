#include "paged_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

#if HAS_X86_SETS
#include <immintrin.h>
#endif

/* What one thread works on; about 300 KiB for the widest heads, half of it used by a head of 64. */
struct attention_tile {
    float queries[ATTENTION_ROWS * ATTENTION_MAX_DIM];
    float keys[ATTENTION_MAX_DIM * ATTENTION_TILE]; /* [head_dim][slot] */
    float values[ATTENTION_TILE * ATTENTION_MAX_DIM];
    float scores[ATTENTION_ROWS * ATTENTION_TILE];
    float weighted[ATTENTION_ROWS * ATTENTION_MAX_DIM];
    float merged[ATTENTION_ROWS * ATTENTION_MAX_DIM];
};

/* Rows of a task are ordered [KV head][token][query head of the group]. A decode takes all KV heads that fit, so that it
 * reads whole slots one behind the other; tokens of a chunk share keys and values in the cache, and take one head. */
struct attention_task {
    const struct attention_segment *segment;
    long row, num_tokens, position; /* of the tile's first token */
    long head, num_heads;           /* KV heads */
    long span;                      /* with `part`: the span to compute */
    float *part;                    /* [row][best, total, weighted…] of one span of a long decode, or NULL */
};

/* Sums of the query rows over part of their context: an output is weighted / total. */
struct row_sums {
    float best[ATTENTION_ROWS];  /* largest score */
    float total[ATTENTION_ROWS]; /* of exp(score - best) */
};

static inline long least(long a, long b)
{
    return a < b ? a : b;
}

/* Of one row in a part. */
static inline long part_floats(const struct attention_call *call)
{
    return call->kv.head_dim + 2;
}

#define SIMD_SET 0
#include "simd.h"
#include "paged_attention_half.h"
#include "paged_attention_tile_body.h"
#include "paged_attention_body.h"
#include "paged_attention_rope_body.h"
#undef SIMD_SET
#if HAS_X86_SETS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define SIMD_SET 1
#include "simd.h"
#include "paged_attention_half.h"
#include "paged_attention_tile_body.h"
#include "paged_attention_body.h"
#include "paged_attention_rope_body.h"
#undef SIMD_SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#define SIMD_SET 2
#include "simd.h"
#include "paged_attention_half.h"
#include "paged_attention_tile_body.h"
#include "paged_attention_body.h"
#include "paged_attention_rope_body.h"
#undef SIMD_SET
#pragma GCC pop_options
#endif

struct attention_work {
    const struct attention_call *call;
    struct attention_task *tasks;
    float *parts; /* of all tasks that have one: num_parts rows */
    long num_tasks, num_parts, decode_heads;
    atomic_long next, next_merge;
};

static long num_spans_of(const struct attention_segment *segment)
{
    return segment->num_tokens > 1 ? 1 : (segment->start + ATTENTION_SPAN) / ATTENTION_SPAN;
}

static long group_of(const struct attention_call *call)
{
    return call->num_heads / call->kv.num_kv_heads;
}

static long tile_tokens(const struct attention_call *call)
{
    return ATTENTION_ROWS / group_of(call);
}

/* KV heads in one task of a decode: fewer where there would be too few tasks for the threads. */
static long decode_heads(const struct attention_call *call)
{
    long spans = 0;
    for (long s = 0; s < call->num_segments; s++)
        spans += num_spans_of(call->segments + s);
    return spans < 2L * call->num_threads ? 1 : least(call->kv.num_kv_heads, ATTENTION_ROWS / group_of(call));
}

static void count_tasks(struct attention_work *work)
{
    const struct attention_call *call = work->call;
    work->decode_heads = decode_heads(call);
    for (long s = 0; s < call->num_segments; s++) {
        const struct attention_segment *segment = call->segments + s;
        const long heads = segment->num_tokens > 1 ? 1 : work->decode_heads, spans = num_spans_of(segment);
        const long tiles = (segment->num_tokens + tile_tokens(call) - 1) / tile_tokens(call);
        work->num_tasks += tiles * spans * ((call->kv.num_kv_heads + heads - 1) / heads);
        work->num_parts += spans > 1 ? spans * call->num_heads : 0;
    }
}

/* Later tiles see more context: they come first, so that no thread is left with a long one at the end. */
static void list_tasks(struct attention_work *work)
{
    const struct attention_call *call = work->call;
    struct attention_task *task = work->tasks;
    float *part = work->parts;
    for (long s = 0; s < call->num_segments; s++) {
        const struct attention_segment *segment = call->segments + s;
        const long heads = segment->num_tokens > 1 ? 1 : work->decode_heads;
        const long spans = num_spans_of(segment), step = tile_tokens(call);
        for (long first = (segment->num_tokens - 1) / step * step; first >= 0; first -= step)
            for (long head = 0; head < call->kv.num_kv_heads; head += heads)
                for (long span = 0; span < spans; span++, task++) {
                    *task = (struct attention_task){segment, segment->row + first,
                                                    least(segment->num_tokens - first, step), segment->start + first,
                                                    head, least(call->kv.num_kv_heads - head, heads), span, 0};
                    if (spans > 1)
                        task->part = part, part += task->num_heads * group_of(call) * part_floats(call);
                }
    }
}

static void attention_worker(void *data)
{
    struct attention_work *work = data;
    struct attention_tile tile;
    long index;
    while ((index = team_next(&work->next, work->num_tasks)) >= 0)
        FOR_SET(work->call->set, attention_task, work->call, work->tasks + index, &tile);
}

static void merge_worker(void *data)
{
    struct attention_work *work = data;
    long index;
    while ((index = team_next(&work->next_merge, work->num_tasks)) >= 0) {
        const struct attention_task *task = work->tasks + index;
        if (task->part != 0 && task->span == 0)
            FOR_SET(work->call->set, merge_spans, work->call, task, num_spans_of(task->segment));
    }
}

int attention_run(const struct attention_call *call)
{
    struct attention_work work = {.call = call};
    count_tasks(&work);
    work.tasks = malloc((size_t)work.num_tasks * sizeof(*work.tasks));
    work.parts = work.num_parts ? malloc((size_t)(work.num_parts * part_floats(call)) * sizeof(float)) : NULL;
    const int is_short = work.tasks == NULL || (work.num_parts != 0 && work.parts == NULL);
    if (!is_short) {
        list_tasks(&work);
        team_run(attention_worker, &work, call->num_threads);
        if (work.num_parts)
            team_run(merge_worker, &work, call->num_threads);
    }
    free(work.tasks);
    free(work.parts);
    return is_short ? -1 : 0;
}

#define ROPE_ROWS 16 /* rows in one task */

struct rope_work {
    const struct rope_call *call;
    atomic_long next;
};

static void rope_worker(void *data)
{
    struct rope_work *work = data;
    const struct rope_call *call = work->call;
    long task;
    while ((task = team_next(&work->next, (call->num_rows + ROPE_ROWS - 1) / ROPE_ROWS)) >= 0)
        for (long row = task * ROPE_ROWS; row < (task + 1) * ROPE_ROWS && row < call->num_rows; row++)
            FOR_SET(call->set, rope_store_row, call, row);
}

void rope_store_run(const struct rope_call *call)
{
    struct rope_work work = {call, 0};
    team_run(rope_worker, &work, call->num_rows > ROPE_ROWS ? call->num_threads : 1);
}
