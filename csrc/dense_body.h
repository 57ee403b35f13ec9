/* The dense kernels for the instruction set that simd.h was included for. */

static void SIMD_NAME(finish_plain)(const struct dense_call *call, const float *sums, long row, long num_rows,
                                    long column)
{
    const long left = call->num_outputs - column;
    const long width = left < TILE_COLUMNS ? left : TILE_COLUMNS;
    for (long r = 0; r < num_rows; r++, sums += TILE_COLUMNS) {
        float *y = call->y + (row + r) * call->y_stride + column;
        for (long c = 0; c < width; c++) {
            const float value = call->bias ? sums[c] + call->bias[column + c] : sums[c];
            y[c] = call->end == DENSE_ADD ? y[c] + value : value;
        }
    }
}

static void SIMD_NAME(finish_gated)(const struct dense_call *call, const float *gates, const float *ups, long row,
                                    long num_rows, long column)
{
    const long left = call->num_outputs - column;
    const long width = left < TILE_COLUMNS ? left : TILE_COLUMNS;
    for (long r = 0; r < num_rows; r++, gates += TILE_COLUMNS, ups += TILE_COLUMNS) {
        float biased[2][TILE_COLUMNS], result[TILE_COLUMNS];
        for (long c = 0; c < TILE_COLUMNS; c++) {
            const int has_bias = call->bias != 0 && c < width;
            biased[0][c] = has_bias ? gates[c] + call->bias[column + c] : gates[c];
            biased[1][c] = has_bias ? ups[c] + call->bias[call->num_outputs + column + c] : ups[c];
        }
        for (int v = 0; v < 2; v++) {
            const vec gate = vec_load(biased[0] + v * LANES), up = vec_load(biased[1] + v * LANES);
            const vec sigmoid = vec_fill(1.0f) / (vec_fill(1.0f) + SIMD_NAME(vec_exp)(vec_fill(0.0f) - gate));
            vec_store(result + v * LANES, gate * sigmoid * up);
        }
        memcpy(call->y + (row + r) * call->y_stride + column, result, (size_t)width * sizeof(float));
    }
}

/* One panel for rows [row, row + num_rows), at most MAX_BLOCK_ROWS; a deep product goes in pieces that fit the L1 cache. */
static void SIMD_NAME(panel_product)(const struct dense_call *call, long panel, long row, long num_rows, float *sums)
{
    const float *weights = call->panels + panel * call->num_inputs * TILE_COLUMNS;
    const float *x = call->x + row * call->x_stride;
    const long piece = num_rows > 2 * TILE_ROWS ? L1_PANEL_FLOATS / TILE_COLUMNS : call->num_inputs;
    for (long k = 0; k < call->num_inputs; k += piece) {
        const long depth = call->num_inputs - k < piece ? call->num_inputs - k : piece;
        const float *end = weights + (k + depth) * TILE_COLUMNS; /* the next piece, or the next panel's first one */
        SIMD_NAME(product)(num_rows, x + k, call->x_stride, weights + k * TILE_COLUMNS, TILE_COLUMNS, depth, sums,
                           TILE_COLUMNS, k > 0, end, depth * TILE_COLUMNS * (long)sizeof(float));
    }
}

static void SIMD_NAME(dense_task)(const struct dense_call *call, long first_panel, long end_panel, long row,
                                  long num_rows)
{
    float sums[2][MAX_BLOCK_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
    for (long panel = first_panel; panel < end_panel; panel++) {
        if (call->end == DENSE_GATED) {
            SIMD_NAME(panel_product)(call, 2 * panel, row, num_rows, sums[0]);
            SIMD_NAME(panel_product)(call, 2 * panel + 1, row, num_rows, sums[1]);
            SIMD_NAME(finish_gated)(call, sums[0], sums[1], row, num_rows, panel * TILE_COLUMNS);
        } else {
            SIMD_NAME(panel_product)(call, panel, row, num_rows, sums[0]);
            SIMD_NAME(finish_plain)(call, sums[0], row, num_rows, panel * TILE_COLUMNS);
        }
    }
}

static void SIMD_NAME(norm_row)(const float *x, const float *weight, float epsilon, float *y, long width)
{
    vec squares = vec_fill(0.0f);
    long i = 0;
    for (; i + LANES <= width; i += LANES)
        squares = vec_fma(vec_load(x + i), vec_load(x + i), squares);
    float sum = SIMD_NAME(vec_sum)(squares);
    for (; i < width; i++)
        sum += x[i] * x[i];
    const float scale = 1.0f / SIMD_NAME(square_root)(sum / (float)width + epsilon);
    for (i = 0; i + LANES <= width; i += LANES)
        vec_store(y + i, vec_load(x + i) * vec_fill(scale) * vec_load(weight + i));
    for (; i < width; i++)
        y[i] = x[i] * scale * weight[i];
}
