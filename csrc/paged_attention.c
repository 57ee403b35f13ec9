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

struct attention_task {
    const struct attention_segment *segment;
    long row, num_tokens, position; /* of the tile's first token */
    long head;                      /* KV head */
    long span;                      /* with `part`: the span to compute */
    float *part;                    /* [group][best, total, weighted…] of one span of a long decode, or NULL */
};

#define SIMD_SET 0
#include "simd.h"
#include "paged_attention_half.h"
#include "paged_attention_body.h"
#include "paged_attention_rope_body.h"
#undef SIMD_SET
#if HAS_X86_SETS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define SIMD_SET 1
#include "simd.h"
#include "paged_attention_half.h"
#include "paged_attention_body.h"
#include "paged_attention_rope_body.h"
#undef SIMD_SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#define SIMD_SET 2
#include "simd.h"
#include "paged_attention_half.h"
#include "paged_attention_body.h"
#include "paged_attention_rope_body.h"
#undef SIMD_SET
#pragma GCC pop_options
#define FOR_SET(set, name, ...)                                                                                        \
    ((set) == SET_AVX512 ? name##_avx512(__VA_ARGS__)                                                                  \
                         : ((set) == SET_AVX2 ? name##_avx2(__VA_ARGS__) : name##_portable(__VA_ARGS__)))
#else
#define FOR_SET(set, name, ...) name##_portable(__VA_ARGS__)
#endif

struct attention_work {
    const struct attention_call *call;
    struct attention_task *tasks;
    float *parts; /* of all tasks that have one */
    long num_tasks, part_floats;
    atomic_long next, next_merge;
};

static long num_spans_of(const struct attention_segment *segment)
{
    return segment->num_tokens > 1 ? 1 : (segment->start + ATTENTION_SPAN) / ATTENTION_SPAN;
}

static long tile_tokens(const struct attention_call *call)
{
    return ATTENTION_ROWS / (call->num_heads / call->kv.num_kv_heads);
}

static long count_tasks(const struct attention_call *call, long *num_parts)
{
    long num_tasks = 0;
    *num_parts = 0;
    for (long s = 0; s < call->num_segments; s++) {
        const long spans = num_spans_of(call->segments + s);
        const long tiles = (call->segments[s].num_tokens + tile_tokens(call) - 1) / tile_tokens(call);
        num_tasks += tiles * spans * call->kv.num_kv_heads;
        *num_parts += spans > 1 ? spans * call->kv.num_kv_heads : 0;
    }
    return num_tasks;
}

/* Later tiles see more context: they come first, so that no thread is left with a long one at the end. */
static void list_tasks(struct attention_work *work)
{
    const struct attention_call *call = work->call;
    struct attention_task *task = work->tasks;
    float *part = work->parts;
    for (long s = 0; s < call->num_segments; s++) {
        const struct attention_segment *segment = call->segments + s;
        const long spans = num_spans_of(segment), step = tile_tokens(call);
        for (long first = (segment->num_tokens - 1) / step * step; first >= 0; first -= step)
            for (long head = 0; head < call->kv.num_kv_heads; head++)
                for (long span = 0; span < spans; span++, task++) {
                    const long left = segment->num_tokens - first;
                    *task = (struct attention_task){
                        segment, segment->row + first, left < step ? left : step, segment->start + first, head, span, 0};
                    if (spans > 1)
                        task->part = part, part += work->part_floats;
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
            FOR_SET(work->call->set, merge_spans, work->call, task, num_spans_of(task->segment), work->part_floats);
    }
}

int attention_run(const struct attention_call *call)
{
    struct attention_work work = {.call = call};
    long num_parts;
    work.num_tasks = count_tasks(call, &num_parts);
    work.part_floats = call->num_heads / call->kv.num_kv_heads * (call->kv.head_dim + 2);
    work.tasks = malloc((size_t)work.num_tasks * sizeof(*work.tasks));
    work.parts = num_parts ? malloc((size_t)(num_parts * work.part_floats) * sizeof(float)) : NULL;
    const int is_short = work.tasks == NULL || (num_parts != 0 && work.parts == NULL);
    if (!is_short) {
        list_tasks(&work);
        team_run(attention_worker, &work, call->num_threads);
        if (num_parts)
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
