/* The attention kernels for the instruction set that simd.h was included for. */

/* Scores of rows [from, from + num_rows), of which row r sees the first `num_valid[r]`, become weights
 * exp(score - best); earlier weighted sums are scaled to the new best. */
static void SIMD_NAME(soften)(float *scores, const int *num_valid, long from, long num_rows, struct row_sums *sums,
                              float *weighted, long head_dim)
{
    float kept[ATTENTION_ROWS + LANES];
    for (long r = 0; r < num_rows; r++) {
        float *row = scores + r * ATTENTION_TILE;
        for (long s = num_valid[r]; s < ATTENTION_TILE; s++)
            row[s] = -INFINITY;
        vec best = vec_load(row);
        for (int s = LANES; s < ATTENTION_TILE; s += LANES)
            best = vec_max(best, vec_load(row + s));
        const float old = sums->best[from + r], found = SIMD_NAME(vec_largest)(best);
        kept[r] = found > old ? old - found : 0.0f;
        sums->best[from + r] = found > old ? found : old;
    }
    for (long r = 0; r < num_rows; r += LANES)
        vec_store(kept + r, SIMD_NAME(vec_exp)(vec_load(kept + r)));
    for (long r = 0; r < num_rows; r++) {
        float *row = scores + r * ATTENTION_TILE;
        if (num_valid[r] <= 0) {
            memset(row, 0, ATTENTION_TILE * sizeof(float));
            continue;
        }
        const vec best = vec_fill(sums->best[from + r]);
        vec total = vec_fill(0.0f);
        for (int s = 0; s < ATTENTION_TILE; s += LANES) {
            const vec weight = SIMD_NAME(vec_exp)(vec_load(row + s) - best);
            vec_store(row + s, weight);
            total += weight;
        }
        sums->total[from + r] = sums->total[from + r] * kept[r] + SIMD_NAME(vec_sum)(total);
        if (kept[r] != 1.0f)
            for (long d = 0; d < head_dim; d += LANES)
                vec_store(weighted + r * head_dim + d, vec_load(weighted + r * head_dim + d) * vec_fill(kept[r]));
    }
}

/* One head's rows [from, from + num_rows) over the loaded tile. */
static void SIMD_NAME(attend_tile)(long head_dim, long from, long num_rows, const int *num_valid, long num_slots,
                                   struct attention_tile *tile, struct row_sums *sums, float *weighted)
{
    const float *queries = tile->queries + from * head_dim;
    const long num_columns = (num_slots + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    weighted += from * head_dim;
    for (long c = 0; c < num_columns; c += TILE_COLUMNS)
        SIMD_NAME(product)(num_rows, queries, head_dim, tile->keys + c, ATTENTION_TILE, head_dim, tile->scores + c,
                           ATTENTION_TILE, 0, tile->keys, 0);
    SIMD_NAME(soften)(tile->scores, num_valid, from, num_rows, sums, weighted, head_dim);
    long d = 0;
    for (; d + TILE_COLUMNS <= head_dim; d += TILE_COLUMNS)
        SIMD_NAME(product)(num_rows, tile->scores, ATTENTION_TILE, tile->values + d, head_dim, num_slots, weighted + d,
                           head_dim, 1, tile->values, 0);
    if (d < head_dim)
        SIMD_NAME(half_product)(num_rows, tile->scores, tile->values + d, head_dim, num_slots, weighted + d,
                                head_dim);
}

#if SIMD_SET > 0
#include "paged_attention_decode_body.h"
#endif

/* Attention of the task's rows over slots [first, end) of one span: fills weighted [rows][head_dim] and sums. */
static void SIMD_NAME(attend_span)(const struct attention_call *call, const struct attention_task *task, long first,
                                   long end, struct attention_tile *tile, struct row_sums *sums, float *weighted)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    const long head_rows = task->num_tokens * group, num_rows = task->num_heads * head_rows;
    const long context = task->position + task->num_tokens;
    memset(weighted, 0, (size_t)(num_rows * head_dim) * sizeof(float));
    for (long r = 0; r < num_rows; r++)
        sums->best[r] = -INFINITY, sums->total[r] = 0.0f;
#if SIMD_SET > 0
    if (task->num_tokens == 1) {
        SIMD_NAME(attend_span_directly)(call, task, first, end, tile, sums, weighted);
        return;
    }
#endif
    for (long start = first; start < end; start += ATTENTION_TILE) {
        const long num_slots = least(end - start, ATTENTION_TILE);
        int num_valid[ATTENTION_ROWS];
        for (long r = 0; r < head_rows; r++) {
            const long seen = task->position + r / group + 1 - start;
            num_valid[r] = seen < 0 ? 0 : (int)least(seen, num_slots);
        }
        for (long h = 0; h < task->num_heads; h++) {
            SIMD_NAME(load_tile)(call, task, task->head + h, start, num_slots, context, tile);
            SIMD_NAME(attend_tile)(head_dim, h * head_rows, head_rows, num_valid, num_slots, tile, sums, weighted);
        }
    }
}

/* merged (+)= part: sums and weighted sums [head_dim] of row r. The first part is taken as it is. */
static void SIMD_NAME(merge)(struct row_sums *merged, long r, float *merged_weighted, float part_best, float part_total,
                             const float *part_weighted, long head_dim)
{
    const float best = part_best > merged->best[r] ? part_best : merged->best[r];
    float factors[LANES] = {merged->best[r] - best, part_best - best};
    vec_store(factors, SIMD_NAME(vec_exp)(vec_load(factors)));
    for (long d = 0; d < head_dim; d += LANES)
        vec_store(merged_weighted + d, vec_fma(vec_load(merged_weighted + d), vec_fill(factors[0]),
                                               vec_load(part_weighted + d) * vec_fill(factors[1])));
    merged->total[r] = merged->total[r] * factors[0] + part_total * factors[1];
    merged->best[r] = best;
}

/* Where the query heads of the task's row begin in a row of [token][head]. */
static inline long SIMD_NAME(place_of)(const struct attention_call *call, const struct attention_task *task, long row,
                                       long token_stride)
{
    const long group = call->num_heads / call->kv.num_kv_heads, head_rows = task->num_tokens * group;
    const long head = (task->head + row / head_rows) * group + row % group;
    return (task->row + row % head_rows / group) * token_stride + head * call->kv.head_dim;
}

/* Queries in the order of rows, scaled. */
static void SIMD_NAME(load_queries)(const struct attention_call *call, const struct attention_task *task, float *queries)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    for (long r = 0; r < task->num_heads * task->num_tokens * group; r++) {
        const float *from = call->queries + SIMD_NAME(place_of)(call, task, r, call->query_stride);
        for (long d = 0; d < head_dim; d += LANES)
            vec_store(queries + r * head_dim + d, vec_load(from + d) * vec_fill(call->scale));
    }
}

static void SIMD_NAME(store_rows)(const struct attention_call *call, const struct attention_task *task,
                                  const struct row_sums *sums, const float *weighted)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    for (long r = 0; r < task->num_heads * task->num_tokens * group; r++) {
        float *to = call->output + SIMD_NAME(place_of)(call, task, r, call->output_stride);
        for (long d = 0; d < head_dim; d += LANES)
            vec_store(to + d, vec_load(weighted + r * head_dim + d) / vec_fill(sums->total[r]));
    }
}

/* All spans of the task's rows, or (with `part`) the one span of a decode that the task names. */
static void SIMD_NAME(attention_task)(const struct attention_call *call, const struct attention_task *task,
                                      struct attention_tile *tile)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    const long num_rows = task->num_heads * task->num_tokens * group, end = task->position + task->num_tokens;
    struct row_sums sums, merged;
    SIMD_NAME(load_queries)(call, task, tile->queries);
    if (task->part != 0) {
        const long first = task->span * ATTENTION_SPAN;
        SIMD_NAME(attend_span)(call, task, first, least(first + ATTENTION_SPAN, end), tile, &sums, tile->weighted);
        for (long r = 0; r < num_rows; r++) {
            float *part = task->part + r * part_floats(call);
            part[0] = sums.best[r], part[1] = sums.total[r];
            memcpy(part + 2, tile->weighted + r * head_dim, (size_t)head_dim * sizeof(float));
        }
        return;
    }
    SIMD_NAME(attend_span)(call, task, 0, least(ATTENTION_SPAN, end), tile, &merged, tile->merged);
    for (long first = ATTENTION_SPAN; first < end; first += ATTENTION_SPAN) {
        SIMD_NAME(attend_span)(call, task, first, least(first + ATTENTION_SPAN, end), tile, &sums, tile->weighted);
        for (long r = 0; r < num_rows; r++)
            if (sums.total[r] > 0.0f)
                SIMD_NAME(merge)(&merged, r, tile->merged + r * head_dim, sums.best[r], sums.total[r],
                                 tile->weighted + r * head_dim, head_dim);
    }
    SIMD_NAME(store_rows)(call, task, &merged, tile->merged);
}

/* The spans of one decode, computed by several tasks, merged in order; `task` names the first span. */
static void SIMD_NAME(merge_spans)(const struct attention_call *call, const struct attention_task *task, long num_spans)
{
    const long head_dim = call->kv.head_dim, num_rows = task->num_heads * (call->num_heads / call->kv.num_kv_heads);
    float weighted[ATTENTION_ROWS * ATTENTION_MAX_DIM];
    struct row_sums merged;
    for (long r = 0; r < num_rows; r++) {
        const float *part = task->part + r * part_floats(call);
        merged.best[r] = part[0], merged.total[r] = part[1];
        memcpy(weighted + r * head_dim, part + 2, (size_t)head_dim * sizeof(float));
        for (long span = 1; span < num_spans; span++) {
            part += num_rows * part_floats(call);
            SIMD_NAME(merge)(&merged, r, weighted + r * head_dim, part[0], part[1], part + 2, head_dim);
        }
    }
    SIMD_NAME(store_rows)(call, task, &merged, weighted);
}
