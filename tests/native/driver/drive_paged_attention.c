/* Rotation, store and attention on exactly as much memory as they may touch; a query that attends to one position gets
 * that position's values, and all queries get means of the values when all keys are equal. */
#include "driver.h"
#include "paged_attention.h"

enum { NUM_BLOCKS = 40, NUM_KV_HEADS = 2, GROUP = 3, NUM_HEADS = NUM_KV_HEADS * GROUP };

static float *zeros(long count)
{
    float *values = calloc((size_t)count, sizeof(float));
    EXPECT(values != NULL);
    return values;
}

/* Values of position p are p + 1, keys are zero: the query at p gets the mean of 1 … p + 1. */
static void fill(const struct kv_memory *kv, const int32_t *table, long length)
{
    const long slot_floats = kv->num_kv_heads * kv->head_dim;
    for (long p = 0; p < length; p++)
        for (long i = 0; i < slot_floats; i++)
            kv->layer[table[p / kv->block_size] * kv->block_stride + kv->plane_stride + p % kv->block_size * slot_floats + i] =
                (float)(p + 1);
}

static void drive_segment(enum instruction_set set, long block_size, long head_dim, long start, long num_tokens)
{
    const long plane = block_size * NUM_KV_HEADS * head_dim, width = NUM_HEADS * head_dim;
    float *memory = zeros(NUM_BLOCKS * 2 * plane), *output = zeros(num_tokens * width);
    const long stride = width + 2 * NUM_KV_HEADS * head_dim;
    float *qkv = zeros(num_tokens * stride), *table_of_angles = zeros((start + num_tokens) * head_dim);
    const long used = (start + num_tokens + block_size - 1) / block_size;
    int32_t *table = malloc((size_t)used * sizeof(int32_t));
    int64_t *positions = malloc((size_t)num_tokens * sizeof(int64_t)), *slots = malloc((size_t)num_tokens * sizeof(int64_t));
    EXPECT(table != NULL && positions != NULL && slots != NULL && used <= NUM_BLOCKS);
    for (long i = 0; i < used; i++)
        table[i] = (int32_t)(NUM_BLOCKS - 1 - i);
    for (long i = 0; i < num_tokens; i++) {
        positions[i] = start + i;
        slots[i] = table[positions[i] / block_size] * block_size + positions[i] % block_size;
    }
    const struct kv_memory kv = {memory, 2 * plane, plane, block_size, NUM_KV_HEADS, head_dim};
    const struct rope_call rope = {set, kv, qkv, stride, NUM_HEADS, table_of_angles, positions, slots, 0, 0, 1e-5f,
                                   num_tokens, 2};
    rope_store_run(&rope);
    fill(&kv, table, start + num_tokens);
    const struct attention_segment segment = {0, num_tokens, start, 0};
    const struct attention_call call = {set, kv, qkv, stride, output, width, NUM_HEADS, 1.0f, &segment, 1, table, 2};
    EXPECT(attention_run(&call) == 0);
    for (long i = 0; i < num_tokens * width; i++) {
        const double mean = 0.5 * (double)(start + i / width + 2), error = output[i] / mean - 1.0;
        EXPECT(error < 1e-5 && error > -1e-5);
    }
    free(memory), free(output), free(qkv), free(table_of_angles), free(table), free(positions), free(slots);
}

void drive_paged_attention(void)
{
    for (int set = SET_PORTABLE; set <= SET_AVX512; set++)
        for (int round = 0; is_set_usable((enum instruction_set)set) && round < 30; round++) {
            const long block_size = 8L << draw(4), head_dim = 16L * (1 + draw(6));
            const long num_tokens = draw(2) ? 1 : 1 + draw(60);
            drive_segment((enum instruction_set)set, block_size, head_dim,
                          draw((uint32_t)(NUM_BLOCKS * block_size - num_tokens)), num_tokens);
        }
}
