/* The attention kernels for the instruction set that simd.h was included for. */

/* Sums of one query row over part of its context: the output is weighted / total. */
struct SIMD_NAME(row_sums) {
    float best;  /* largest score */
    float total; /* of exp(score - best) */
};

static inline float SIMD_NAME(scalar_exp)(float x)
{
    float parts[LANES];
    vec_store(parts, SIMD_NAME(vec_exp)(vec_fill(x)));
    return parts[0];
}

static inline float SIMD_NAME(vec_best)(vec value)
{
    float parts[LANES];
    vec_store(parts, value);
    float best = parts[0];
    for (int i = 1; i < LANES; i++)
        best = parts[i] > best ? parts[i] : best;
    return best;
}

/* Scores of a row become weights exp(score - best); earlier weighted sums are scaled to the new best. */
static void SIMD_NAME(soften)(float *scores, long num_valid, struct SIMD_NAME(row_sums) * sums, float *weighted, long head_dim)
{
    if (num_valid <= 0) {
        memset(scores, 0, ATTENTION_TILE * sizeof(float));
        return;
    }
    for (long s = num_valid; s < ATTENTION_TILE; s++)
        scores[s] = -INFINITY;
    vec best = vec_fill(sums->best);
    for (int s = 0; s < ATTENTION_TILE; s += LANES)
        best = vec_max(best, vec_load(scores + s));
    const float new_best = SIMD_NAME(vec_best)(best);
    vec total = vec_fill(0.0f);
    for (int s = 0; s < ATTENTION_TILE; s += LANES) {
        const vec weight = SIMD_NAME(vec_exp)(vec_load(scores + s) - vec_fill(new_best));
        vec_store(scores + s, weight);
        total += weight;
    }
    const float kept = SIMD_NAME(scalar_exp)(sums->best - new_best);
    sums->total = sums->total * kept + SIMD_NAME(vec_sum)(total);
    sums->best = new_best;
    if (kept != 1.0f)
        for (long d = 0; d < head_dim; d += LANES)
            vec_store(weighted + d, vec_load(weighted + d) * vec_fill(kept));
}

static inline const float *SIMD_NAME(slot_of)(const struct kv_memory *kv, const int32_t *table, long position)
{
    return kv->layer + table[position / kv->block_size] * kv->block_stride +
           position % kv->block_size * kv->num_kv_heads * kv->head_dim;
}

/* Fetches one head of one slot into the cache. */
static inline void SIMD_NAME(fetch_ahead)(const float *head, long head_dim)
{
    for (long d = 0; d < head_dim; d += 16)
        __builtin_prefetch(head + d, 0, 2);
}

/* Slots become columns; meanwhile the slots that lie `ahead` floats behind them are fetched. */
static inline void SIMD_NAME(transpose_keys)(const float *key, long stride, long ahead, float *columns, long num_slots,
                                             long head_dim)
{
    long s = 0;
#if HAS_X86_SETS
    for (; s + 4 <= num_slots; s += 4, key += 4 * stride) {
        for (long i = 0; i < 4; i++)
            SIMD_NAME(fetch_ahead)(key + i * stride + ahead, head_dim);
        for (long d = 0; d < head_dim; d += 4) {
            __m128 r0 = _mm_loadu_ps(key + d), r1 = _mm_loadu_ps(key + stride + d);
            __m128 r2 = _mm_loadu_ps(key + 2 * stride + d), r3 = _mm_loadu_ps(key + 3 * stride + d);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            float *to = columns + d * ATTENTION_TILE + s;
            _mm_storeu_ps(to, r0), _mm_storeu_ps(to + ATTENTION_TILE, r1);
            _mm_storeu_ps(to + 2 * ATTENTION_TILE, r2), _mm_storeu_ps(to + 3 * ATTENTION_TILE, r3);
        }
    }
#endif
    for (; s < num_slots; s++, key += stride)
        for (long d = 0; d < head_dim; d++)
            columns[d * ATTENTION_TILE + s] = key[d];
}

static inline void SIMD_NAME(copy_values)(const float *value, long stride, long ahead, float *rows, long num_slots,
                                          long head_dim)
{
    for (long s = 0; s < num_slots; s++, value += stride, rows += head_dim) {
        SIMD_NAME(fetch_ahead)(value + ahead, head_dim);
        for (long d = 0; d < head_dim; d += LANES)
            vec_store(rows + d, vec_load(value + d));
    }
}

/* Slots [first, first + num_slots) of a sequence, gathered from its blocks: keys as columns, values as rows. The tile
 * after it is fetched meanwhile, if it begins before `end`. */
static void SIMD_NAME(load_tile)(const struct attention_call *call, const int32_t *table, long head, long first,
                                 long num_slots, long end, struct attention_tile *tile)
{
    const struct kv_memory *kv = &call->kv;
    const long stride = kv->num_kv_heads * kv->head_dim;
    for (long done = 0; done < num_slots;) {
        const long position = first + done, offset = position % kv->block_size;
        const long in_block = kv->block_size - offset;
        const long count = num_slots - done < in_block ? num_slots - done : in_block;
        const float *key = SIMD_NAME(slot_of)(kv, table, position) + head * kv->head_dim;
        const long next = position + ATTENTION_TILE;
        const long ahead = next < end ? SIMD_NAME(slot_of)(kv, table, next) + head * kv->head_dim - key : 0;
        SIMD_NAME(transpose_keys)(key, stride, ahead, tile->keys + done, count, kv->head_dim);
        SIMD_NAME(copy_values)(key + kv->plane_stride, stride, ahead, tile->values + done * kv->head_dim, count,
                               kv->head_dim);
        done += count;
    }
}

/* Attention of the task's rows over slots [first, end) of one span: fills weighted [rows][head_dim] and sums. */
static void SIMD_NAME(attend_span)(const struct attention_call *call, const struct attention_task *task, long first,
                                   long end, struct attention_tile *tile, struct SIMD_NAME(row_sums) * sums,
                                   float *weighted)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    const long num_rows = task->num_tokens * group;
    const int32_t *table = call->tables + task->segment->table;
    memset(weighted, 0, (size_t)(num_rows * head_dim) * sizeof(float));
    for (long r = 0; r < num_rows; r++)
        sums[r] = (struct SIMD_NAME(row_sums)){-INFINITY, 0.0f};
    for (long start = first; start < end; start += ATTENTION_TILE) {
        const long num_slots = end - start < ATTENTION_TILE ? end - start : ATTENTION_TILE;
        SIMD_NAME(load_tile)(call, table, task->head, start, num_slots, task->position + task->num_tokens, tile);
        const long num_columns = (num_slots + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
        for (long c = 0; c < num_columns; c += TILE_COLUMNS)
            SIMD_NAME(product)(num_rows, tile->queries, head_dim, tile->keys + c, ATTENTION_TILE, head_dim,
                               tile->scores + c, ATTENTION_TILE, 0, tile->keys, 0);
        for (long r = 0; r < num_rows; r++) {
            const long valid = task->position + r / group + 1 - start;
            SIMD_NAME(soften)(tile->scores + r * ATTENTION_TILE, valid < num_slots ? valid : num_slots, sums + r,
                              weighted + r * head_dim, head_dim);
        }
        long d = 0;
        for (; d + TILE_COLUMNS <= head_dim; d += TILE_COLUMNS)
            SIMD_NAME(product)(num_rows, tile->scores, ATTENTION_TILE, tile->values + d, head_dim, num_slots,
                               weighted + d, head_dim, 1, tile->values, 0);
        if (d < head_dim)
            SIMD_NAME(half_product)(num_rows, tile->scores, tile->values + d, head_dim, num_slots, weighted + d);
    }
}

/* merged (+)= part, each [head_dim], with their sums. The first part is taken as it is. */
static void SIMD_NAME(merge)(struct SIMD_NAME(row_sums) * merged, float *merged_weighted,
                             const struct SIMD_NAME(row_sums) * part, const float *part_weighted, long head_dim)
{
    const float best = part->best > merged->best ? part->best : merged->best;
    const float kept = SIMD_NAME(scalar_exp)(merged->best - best), added = SIMD_NAME(scalar_exp)(part->best - best);
    for (long d = 0; d < head_dim; d += LANES)
        vec_store(merged_weighted + d, vec_fma(vec_load(merged_weighted + d), vec_fill(kept),
                                               vec_load(part_weighted + d) * vec_fill(added)));
    merged->total = merged->total * kept + part->total * added;
    merged->best = best;
}

/* Rows of queries in the order [token][head of the group], scaled. */
static void SIMD_NAME(load_queries)(const struct attention_call *call, const struct attention_task *task, float *queries)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    for (long t = 0; t < task->num_tokens; t++) {
        const float *from = call->queries + (task->row + t) * call->query_stride + task->head * group * head_dim;
        for (long i = 0; i < group * head_dim; i += LANES)
            vec_store(queries + t * group * head_dim + i, vec_load(from + i) * vec_fill(call->scale));
    }
}

static void SIMD_NAME(store_rows)(const struct attention_call *call, const struct attention_task *task,
                                  const struct SIMD_NAME(row_sums) * sums, const float *weighted)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    for (long r = 0; r < task->num_tokens * group; r++) {
        float *to = call->output + ((task->row + r / group) * call->num_heads + task->head * group + r % group) * head_dim;
        for (long d = 0; d < head_dim; d += LANES)
            vec_store(to + d, vec_load(weighted + r * head_dim + d) / vec_fill(sums[r].total));
    }
}

/* All spans of a prefill tile, or (with `part`) the one span of a decode that the task names. */
static void SIMD_NAME(attention_task)(const struct attention_call *call, const struct attention_task *task,
                                      struct attention_tile *tile)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    const long num_rows = task->num_tokens * group, end = task->position + task->num_tokens;
    struct SIMD_NAME(row_sums) sums[ATTENTION_ROWS], merged[ATTENTION_ROWS];
    SIMD_NAME(load_queries)(call, task, tile->queries);
    if (task->part != 0) {
        const long first = task->span * ATTENTION_SPAN;
        const long span_end = first + ATTENTION_SPAN < end ? first + ATTENTION_SPAN : end;
        SIMD_NAME(attend_span)(call, task, first, span_end, tile, sums, tile->weighted);
        for (long r = 0; r < num_rows; r++) {
            float *part = task->part + r * (head_dim + 2);
            part[0] = sums[r].best, part[1] = sums[r].total;
            memcpy(part + 2, tile->weighted + r * head_dim, (size_t)head_dim * sizeof(float));
        }
        return;
    }
    for (long first = 0; first < end; first += ATTENTION_SPAN) {
        const long span_end = first + ATTENTION_SPAN < end ? first + ATTENTION_SPAN : end;
        SIMD_NAME(attend_span)(call, task, first, span_end, tile, sums, first ? tile->weighted : tile->merged);
        for (long r = 0; r < num_rows; r++)
            if (first == 0)
                merged[r] = sums[r];
            else if (sums[r].total > 0.0f)
                SIMD_NAME(merge)(merged + r, tile->merged + r * head_dim, sums + r, tile->weighted + r * head_dim, head_dim);
    }
    SIMD_NAME(store_rows)(call, task, merged, tile->merged);
}

/* The spans of one decode and head, computed by several tasks, merged in order; `task` names the first span. */
static void SIMD_NAME(merge_spans)(const struct attention_call *call, const struct attention_task *task, long num_spans,
                                   long part_stride)
{
    const long head_dim = call->kv.head_dim, group = call->num_heads / call->kv.num_kv_heads;
    float weighted[ATTENTION_ROWS * ATTENTION_MAX_DIM];
    struct SIMD_NAME(row_sums) merged[ATTENTION_ROWS];
    for (long r = 0; r < group; r++) {
        const float *part = task->part + r * (head_dim + 2);
        merged[r] = (struct SIMD_NAME(row_sums)){part[0], part[1]};
        memcpy(weighted + r * head_dim, part + 2, (size_t)head_dim * sizeof(float));
        for (long span = 1; span < num_spans; span++) {
            part += part_stride;
            const struct SIMD_NAME(row_sums) sums = {part[0], part[1]};
            SIMD_NAME(merge)(merged + r, weighted + r * head_dim, &sums, part + 2, head_dim);
        }
    }
    SIMD_NAME(store_rows)(call, task, merged, weighted);
}
