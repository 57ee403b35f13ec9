/* The vector type and its few operations for one instruction set. Included once for each set, with SIMD_SET defined as
 * a value of `enum instruction_set`, by a file that then includes its kernel's body; SIMD_NAME(x) is x_<set>.
 *
 * Every operation is element-wise and every sum is taken in a fixed order, so a result never depends on how many rows
 * are computed together. Between the sets results differ in their last bits (width of sums, fused multiply-add). */

#undef LANES
#undef TILE_ROWS
#undef SIMD_NAME
#undef vec
#undef ivec
#undef vec_load
#undef vec_store
#undef vec_fill
#undef vec_fma
#undef vec_max
#undef vec_min

#if SIMD_SET == 2
#define LANES 16
#define TILE_ROWS 12
#define SIMD_NAME(name) name##_avx512
#define vec __m512
#define ivec vec_int_avx512
#define vec_load(address) _mm512_loadu_ps(address)
#define vec_store(address, value) _mm512_storeu_ps(address, value)
#define vec_fill(value) _mm512_set1_ps(value)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vec_max(a, b) _mm512_max_ps(a, b)
#define vec_min(a, b) _mm512_min_ps(a, b)
#elif SIMD_SET == 1
#define LANES 8
#define TILE_ROWS 6
#define SIMD_NAME(name) name##_avx2
#define vec __m256
#define ivec vec_int_avx2
#define vec_load(address) _mm256_loadu_ps(address)
#define vec_store(address, value) _mm256_storeu_ps(address, value)
#define vec_fill(value) _mm256_set1_ps(value)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vec_max(a, b) _mm256_max_ps(a, b)
#define vec_min(a, b) _mm256_min_ps(a, b)
#else
#define LANES 4
#define TILE_ROWS 4
#define SIMD_NAME(name) name##_portable
#define vec vec_float_portable
#define ivec vec_int_portable
typedef float vec_float_portable __attribute__((vector_size(16)));
#define vec_load(address) ((vec_float_portable) * (const vec_unaligned_portable *)(address))
#define vec_store(address, value) (*(vec_unaligned_portable *)(address) = (value))
#define vec_fill(value) (((vec_float_portable){0}) + (value))
#define vec_fma(a, b, c) ((a) * (b) + (c))
#define vec_max(a, b) ((vec_float_portable)(((ivec)(a) & ((a) > (b))) | ((ivec)(b) & ~((a) > (b)))))
#define vec_min(a, b) ((vec_float_portable)(((ivec)(a) & ((a) < (b))) | ((ivec)(b) & ~((a) < (b)))))
typedef float vec_unaligned_portable __attribute__((vector_size(16), aligned(4), may_alias));
#endif

#define TILE_COLUMNS (2 * LANES)

typedef int ivec __attribute__((vector_size(4 * LANES)));

/* The processor's own square root: a call of the C library's would tie a static build to libm. */
static inline float SIMD_NAME(square_root)(float value)
{
#if HAS_X86_SETS
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(value)));
#else
    return sqrtf(value);
#endif
}

/* exp of each element, relative error about 2e-7; below -87 it is exactly 0, above 88 it is exp(88). */
static inline vec SIMD_NAME(vec_exp)(vec x)
{
    const ivec is_zero = (ivec)(x < vec_fill(-87.0f));
    x = vec_min(vec_max(x, vec_fill(-87.0f)), vec_fill(88.0f));
    const vec shifter = vec_fill(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const vec shifted = vec_fma(x, vec_fill(1.44269504f), shifter);
    const vec whole = shifted - shifter;
    vec rest = vec_fma(whole, vec_fill(-0.693359375f), x);
    rest = vec_fma(whole, vec_fill(2.12194440e-4f), rest);
    vec series = vec_fma(vec_fill(1.9875691500e-4f), rest, vec_fill(1.3981999507e-3f));
    series = vec_fma(series, rest, vec_fill(8.3334519073e-3f));
    series = vec_fma(series, rest, vec_fill(4.1665795894e-2f));
    series = vec_fma(series, rest, vec_fill(1.6666665459e-1f));
    series = vec_fma(series, rest, vec_fill(5.0000001201e-1f));
    series = vec_fma(series, rest * rest, rest + vec_fill(1.0f));
    const ivec power = ((ivec)shifted << 23) + 0x3f800000;
    const vec result = series * (vec)power;
    return (vec)((ivec)result & ~is_zero);
}

/* The sum and the largest of all elements, halves with halves. */
#if SIMD_SET == 1
static inline float SIMD_NAME(vec_sum)(vec value)
{
    const __m128 half = _mm256_castps256_ps128(value) + _mm256_extractf128_ps(value, 1);
    const __m128 pair = half + _mm_movehl_ps(half, half);
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

static inline float SIMD_NAME(vec_largest)(vec value)
{
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}
#elif SIMD_SET == 2
#define vec_sum_avx512(value) _mm512_reduce_add_ps(value)
#define vec_largest_avx512(value) _mm512_reduce_max_ps(value)
#else
static inline float SIMD_NAME(vec_sum)(vec value)
{
    return (value[0] + value[2]) + (value[1] + value[3]);
}

static inline float SIMD_NAME(vec_largest)(vec value)
{
    const float even = value[0] > value[2] ? value[0] : value[2], odd = value[1] > value[3] ? value[1] : value[3];
    return even > odd ? even : odd;
}
#endif

/* c[rows][TILE_COLUMNS] (+)= a[rows][depth] · b[depth][TILE_COLUMNS]; each element sums over depth from 0 upwards.
 * Meanwhile memory from `ahead` on is fetched into the cache, ahead_step bytes further for each step of depth. */
__attribute__((always_inline)) static inline void SIMD_NAME(product_rows)(
    const int rows, const float *a, long a_stride, const float *b, long b_stride, long depth, float *c, long c_stride,
    int is_continued, const char *ahead, long ahead_step)
{
    vec sums[TILE_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            sums[r][v] = is_continued ? vec_load(c + r * c_stride + v * LANES) : vec_fill(0.0f);
    for (long k = 0; k < depth; k++, ahead += ahead_step) {
        const vec b0 = vec_load(b + k * b_stride), b1 = vec_load(b + k * b_stride + LANES);
        if (rows > 1) /* one row only streams, which the processor foresees by itself */
            __builtin_prefetch(ahead, 0, 2);
        for (int r = 0; r < rows; r++) {
            const vec factor = vec_fill(a[r * a_stride + k]);
            sums[r][0] = vec_fma(factor, b0, sums[r][0]);
            sums[r][1] = vec_fma(factor, b1, sums[r][1]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            vec_store(c + r * c_stride + v * LANES, sums[r][v]);
}

/* The same for any number of rows, in tiles that stay in registers. While they pass over b, the `ahead_bytes` behind
 * `ahead` are fetched: what comes after b, so that memory and arithmetic work at the same time. */
__attribute__((unused)) static void SIMD_NAME(product)(
    long rows, const float *a, long a_stride, const float *b, long b_stride, long depth, float *c, long c_stride,
    int is_continued, const void *ahead, long ahead_bytes)
{
    const long full = rows / TILE_ROWS, rest = rows % TILE_ROWS;
    const long num_tiles = full + (rest + 3) / 4;
    const long step = ahead_bytes / (depth * num_tiles);
    const char *next = ahead;
#define PRODUCT_ROWS(n) SIMD_NAME(product_rows)(n, a, a_stride, b, b_stride, depth, c, c_stride, is_continued, next, step)
    for (; rows >= TILE_ROWS; rows -= TILE_ROWS, a += TILE_ROWS * a_stride, c += TILE_ROWS * c_stride) {
        PRODUCT_ROWS(TILE_ROWS);
        next += step * depth;
    }
    while (rows > 0) {
        const int now = rows >= 4 ? 4 : (int)rows;
        switch (now) {
        case 4: PRODUCT_ROWS(4); break;
        case 3: PRODUCT_ROWS(3); break;
        case 2: PRODUCT_ROWS(2); break;
        default: PRODUCT_ROWS(1); break;
        }
        rows -= now, a += now * a_stride, c += now * c_stride, next += step * depth;
    }
#undef PRODUCT_ROWS
}
