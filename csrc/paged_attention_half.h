/* A product that is one vector wide, for heads that are no multiple of two vectors; same order of sums as `product`. */
static void SIMD_NAME(half_product)(long num_rows, const float *weights, const float *values, long value_stride,
                                    long num_slots, float *sums, long sum_stride)
{
    for (long r = 0; r < num_rows; r++) {
        vec sum = vec_load(sums + r * sum_stride);
        for (long s = 0; s < num_slots; s++)
            sum = vec_fma(vec_fill(weights[r * ATTENTION_TILE + s]), vec_load(values + s * value_stride), sum);
        vec_store(sums + r * sum_stride, sum);
    }
}
