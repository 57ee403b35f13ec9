/* One token's attention straight on the blocks: every slot is read once, whole and in the order of memory. The same sums
 * in the same order as `attend_tile` takes them from its copies. For the instruction set that simd.h was included for. */

#define DIRECT_ROWS 3   /* query rows at a time: with 16 slots, six sums and eight columns fill the registers */
#define DIRECT_SLOTS 16 /* slots whose values are taken before the next head's turn */

/* Scores of `rows` queries [rows][head_dim] over 16 slots, at `offset` in each slot. */
__attribute__((always_inline)) static inline void SIMD_NAME(score_rows)(const int rows, const float *queries,
                                                                        const float *const *slots, long offset,
                                                                        long head_dim, float *scores)
{
    __m256 sums[DIRECT_ROWS][2];
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    for (long d = 0; d < head_dim; d += 8)
        for (int half = 0; half < 2; half++) {
            __m256 columns[8];
            SIMD_NAME(load_columns)(slots + 8 * half, offset + d, columns);
            for (int i = 0; i < 8; i++)
                for (int r = 0; r < rows; r++)
                    sums[r][half] = _mm256_fmadd_ps(_mm256_set1_ps(queries[r * head_dim + d + i]), columns[i], sums[r][half]);
        }
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            _mm256_storeu_ps(scores + r * ATTENTION_TILE + 8 * half, sums[r][half]);
}

static void SIMD_NAME(score_slots)(long rows, const float *queries, const float *const *slots, long offset,
                                   long head_dim, float *scores)
{
    for (; rows >= DIRECT_ROWS; rows -= DIRECT_ROWS) {
        SIMD_NAME(score_rows)(DIRECT_ROWS, queries, slots, offset, head_dim, scores);
        queries += DIRECT_ROWS * head_dim, scores += DIRECT_ROWS * ATTENTION_TILE;
    }
    if (rows == 2)
        SIMD_NAME(score_rows)(2, queries, slots, offset, head_dim, scores);
    if (rows == 1)
        SIMD_NAME(score_rows)(1, queries, slots, offset, head_dim, scores);
}

/* Weighted values of one head over `num_slots` slots of one block are added. */
static void SIMD_NAME(add_values)(long rows, const float *weights, const float *values, long stride, long num_slots,
                                  float *weighted, long head_dim)
{
    long d = 0;
    for (; d + TILE_COLUMNS <= head_dim; d += TILE_COLUMNS)
        SIMD_NAME(product)(rows, weights, ATTENTION_TILE, values + d, stride, num_slots, weighted + d, head_dim, 1,
                           values, 0);
    if (d < head_dim)
        SIMD_NAME(half_product)(rows, weights, values + d, stride, num_slots, weighted + d, head_dim);
}

/* Where slots [first, first + num_slots) lie, from `head` on; behind the last one up to a tile: the last one again. */
static void SIMD_NAME(find_slots)(const struct attention_call *call, const struct attention_task *task, long first,
                                  long num_slots, const float **slots)
{
    const struct kv_memory *kv = &call->kv;
    const long stride = kv->num_kv_heads * kv->head_dim;
    for (long s = 0; s < num_slots;) {
        const float *slot = SIMD_NAME(slot_of)(kv, call->tables + task->segment->table, first + s) +
                            task->head * kv->head_dim;
        const long end = least(num_slots, s + kv->block_size - (first + s) % kv->block_size);
        for (; s < end; s++, slot += stride)
            slots[s] = slot;
    }
    for (long s = num_slots; s < ATTENTION_TILE && num_slots > 0; s++)
        slots[s] = slots[num_slots - 1];
}

/* Slots that a later step needs, read now: a plain walk through memory, at which processors fetch best (instructions
 * that only prefetch made it slower), so that arithmetic meanwhile finds them in the cache. */
static void SIMD_NAME(touch_slots)(const float *const *slots, long num_slots, long plane, long num_floats)
{
    for (long s = 0; s < num_slots; s++)
        for (long d = 0; d < num_floats; d += 16)
            (void)*(const volatile float *)(slots[s] + plane + d);
}

/* What one token's task reads: a tile of slots now, and the one behind it. */
struct SIMD_NAME(slot_window) {
    const float *now[ATTENTION_TILE], *next[ATTENTION_TILE];
    long num_now, num_next;
};

/* A tile's slots for all heads of a task of one token; meanwhile the next tile's are touched, a share in each turn. */
static void SIMD_NAME(attend_directly)(const struct attention_call *call, const struct attention_task *task,
                                       const struct SIMD_NAME(slot_window) * window, struct attention_tile *tile,
                                       struct row_sums *sums, float *weighted)
{
    const struct kv_memory *kv = &call->kv;
    const long head_dim = kv->head_dim, group = call->num_heads / kv->num_kv_heads, stride = kv->num_kv_heads * head_dim;
    const long num_slots = window->num_now, num_rows = task->num_heads * group, width = task->num_heads * head_dim;
    int num_valid[ATTENTION_ROWS];
    for (long r = 0; r < num_rows; r++)
        num_valid[r] = (int)num_slots;
    for (long s = 0; s < num_slots; s += DIRECT_SLOTS)
        for (long h = 0; h < task->num_heads; h++) {
            const long share = s + h * DIRECT_SLOTS / task->num_heads, end = s + (h + 1) * DIRECT_SLOTS / task->num_heads;
            SIMD_NAME(touch_slots)(window->next + share, least(end, window->num_next) - share, 0, width);
            SIMD_NAME(score_slots)(group, tile->queries + h * group * head_dim, window->now + s, h * head_dim, head_dim,
                                   tile->scores + h * group * ATTENTION_TILE + s);
        }
    SIMD_NAME(soften)(tile->scores, num_valid, 0, num_rows, sums, weighted, head_dim);
    for (long s = 0; s < num_slots;) {
        long count = 1; /* of slots that lie one behind the other */
        while (s + count < num_slots && count < DIRECT_SLOTS && window->now[s + count] == window->now[s] + count * stride)
            count++;
        for (long h = 0; h < task->num_heads; h++) {
            const long share = s + h * count / task->num_heads, end = s + (h + 1) * count / task->num_heads;
            SIMD_NAME(touch_slots)(window->next + share, least(end, window->num_next) - share, kv->plane_stride, width);
            SIMD_NAME(add_values)(group, tile->scores + h * group * ATTENTION_TILE + s,
                                  window->now[s] + kv->plane_stride + h * head_dim, stride, count,
                                  weighted + h * group * head_dim, head_dim);
        }
        s += count;
    }
}

/* A token's task over slots [first, end) of one span. */
static void SIMD_NAME(attend_span_directly)(const struct attention_call *call, const struct attention_task *task,
                                            long first, long end, struct attention_tile *tile, struct row_sums *sums,
                                            float *weighted)
{
    const long width = task->num_heads * call->kv.head_dim;
    struct SIMD_NAME(slot_window) window;
    window.num_next = least(end - first, ATTENTION_TILE);
    SIMD_NAME(find_slots)(call, task, first, window.num_next, window.next);
    SIMD_NAME(touch_slots)(window.next, window.num_next, 0, width);
    SIMD_NAME(touch_slots)(window.next, window.num_next, call->kv.plane_stride, width);
    for (long start = first; start < end; start += ATTENTION_TILE) {
        memcpy(window.now, window.next, sizeof(window.now));
        window.num_now = window.num_next;
        window.num_next = start + ATTENTION_TILE < end ? least(end - start - ATTENTION_TILE, ATTENTION_TILE) : 0;
        SIMD_NAME(find_slots)(call, task, start + ATTENTION_TILE, window.num_next, window.next);
        SIMD_NAME(attend_directly)(call, task, &window, tile, sums, weighted);
    }
}
