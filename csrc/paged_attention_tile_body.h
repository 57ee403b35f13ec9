/* Loading a tile of keys and values, for the instruction set that simd.h was included for. */

static inline const float *SIMD_NAME(slot_of)(const struct kv_memory *kv, const int32_t *table, long position)
{
    return kv->layer + table[position / kv->block_size] * kv->block_stride +
           position % kv->block_size * kv->num_kv_heads * kv->head_dim;
}

/* Fetches one head of one slot, keys and values, into the L2 cache. */
static inline void SIMD_NAME(fetch_head)(const struct kv_memory *kv, const float *head)
{
    for (long d = 0; d < kv->head_dim; d += 16) {
        __builtin_prefetch(head + d, 0, 2);
        __builtin_prefetch(head + kv->plane_stride + d, 0, 2);
    }
}

#if SIMD_SET > 0
/* Floats d … d + 7 of eight slots as eight columns of eight. */
__attribute__((always_inline)) static inline void SIMD_NAME(load_columns)(const float *const *slots, long offset,
                                                                          __m256 *columns)
{
    __m256 rows[8], pairs[8];
    for (int i = 0; i < 4; i++) { /* slots i and i + 4: floats 0 … 3, then 4 … 7 */
        const float *low = slots[i] + offset, *high = slots[i + 4] + offset;
        rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
        rows[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low + 4)), _mm_loadu_ps(high + 4), 1);
    }
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        columns[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        columns[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        columns[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        columns[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
}

/* Eight slots become eight floats of each column. */
static inline void SIMD_NAME(transpose_eight)(const float *key, long stride, float *to, long head_dim)
{
    const float *slots[8];
    for (int i = 0; i < 8; i++)
        slots[i] = key + i * stride;
    for (long d = 0; d < head_dim; d += 8) {
        __m256 columns[8];
        SIMD_NAME(load_columns)(slots, d, columns);
        for (int i = 0; i < 8; i++)
            _mm256_storeu_ps(to + (d + i) * ATTENTION_TILE, columns[i]);
    }
}
#endif

/* Slots of one block: keys become columns, values rows. Meanwhile as many slots from `ahead` on are fetched. */
static void SIMD_NAME(load_run)(const struct kv_memory *kv, const float *key, long num_slots, const float *ahead,
                                float *columns, float *rows)
{
    const long stride = kv->num_kv_heads * kv->head_dim, head_dim = kv->head_dim;
    const float *value = key + kv->plane_stride;
    long s = 0;
#if SIMD_SET > 0
    for (; s + 8 <= num_slots; s += 8, key += 8 * stride) {
        for (long i = 0; i < 8 && ahead != 0; i++, ahead += stride)
            SIMD_NAME(fetch_head)(kv, ahead);
        SIMD_NAME(transpose_eight)(key, stride, columns + s, head_dim);
        for (long i = 0; i < 8; i++, value += stride, rows += head_dim)
            for (long d = 0; d < head_dim; d += LANES)
                vec_store(rows + d, vec_load(value + d));
    }
#endif
    for (; s < num_slots; s++, key += stride, value += stride, rows += head_dim) {
        if (ahead != 0)
            SIMD_NAME(fetch_head)(kv, ahead), ahead += stride;
        for (long d = 0; d < head_dim; d++)
            columns[d * ATTENTION_TILE + s] = key[d];
        for (long d = 0; d < head_dim; d += LANES)
            vec_store(rows + d, vec_load(value + d));
    }
}

/* Slots [first, first + num_slots) of one head, gathered from the sequence's blocks. Meanwhile the tile
 * behind them is fetched, if it begins before `end`. */
static void SIMD_NAME(load_tile)(const struct attention_call *call, const struct attention_task *task, long head,
                                 long first, long num_slots, long end, struct attention_tile *tile)
{
    const struct kv_memory *kv = &call->kv;
    const int32_t *table = call->tables + task->segment->table;
    for (long done = 0; done < num_slots;) {
        const long position = first + done, next = position + ATTENTION_TILE;
        const long count = least(num_slots - done, kv->block_size - position % kv->block_size);
        const float *key = SIMD_NAME(slot_of)(kv, table, position) + head * kv->head_dim;
        const float *ahead = next < end ? SIMD_NAME(slot_of)(kv, table, next) + head * kv->head_dim : 0;
        SIMD_NAME(load_run)(kv, key, count, ahead, tile->keys + done, tile->values + done * kv->head_dim);
        done += count;
    }
}
