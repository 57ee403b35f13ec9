/* Rotation and storing of one batch row, for the instruction set that simd.h was included for. */

static void SIMD_NAME(rotate_head)(float *head, const float *norm, float epsilon, const float *table, long head_dim,
                                   float *to)
{
    const long half = head_dim / 2;
    if (norm != 0) {
        float squares = 0.0f;
        for (long d = 0; d < head_dim; d++)
            squares += head[d] * head[d];
        const float scale = 1.0f / SIMD_NAME(square_root)(squares / (float)head_dim + epsilon);
        for (long d = 0; d < head_dim; d++)
            head[d] *= scale * norm[d];
    }
    for (long d = 0; d < half; d++) {
        const float first = head[d], second = head[half + d], cosine = table[d], sine = table[half + d];
        to[d] = first * cosine - second * sine;
        to[half + d] = second * cosine + first * sine;
    }
}

static void SIMD_NAME(rope_store_row)(const struct rope_call *call, long row)
{
    const struct kv_memory *kv = &call->kv;
    const long head_dim = kv->head_dim, kv_width = kv->num_kv_heads * head_dim;
    float *heads = call->qkv + row * call->qkv_stride;
    const float *table = call->table + call->positions[row] * head_dim;
    for (long h = 0; h < call->num_heads; h++, heads += head_dim)
        SIMD_NAME(rotate_head)(heads, call->q_norm, call->epsilon, table, head_dim, heads);
    const long block = call->slots[row] / kv->block_size, slot = call->slots[row] % kv->block_size;
    float *key = kv->layer + block * kv->block_stride + slot * kv_width;
    memcpy(key + kv->plane_stride, heads + kv_width, (size_t)kv_width * sizeof(float));
    for (long h = 0; h < kv->num_kv_heads; h++, heads += head_dim, key += head_dim)
        SIMD_NAME(rotate_head)(heads, call->k_norm, call->epsilon, table, head_dim, key);
}
