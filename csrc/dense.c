#include "dense.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "team.h"

#if HAS_X86_SETS
#include <immintrin.h>
#endif

#define MAX_BLOCK_ROWS 96
#define L2_BLOCK_FLOATS 65536 /* rows of x that one task keeps in the L2 cache beside a panel: 256 KiB */
#define L1_PANEL_FLOATS 6144  /* piece of a panel that stays in the L1 cache while the rows pass: 24 KiB */

#define SIMD_SET 0
#include "simd.h"
#include "dense_body.h"
#undef SIMD_SET
#if HAS_X86_SETS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define SIMD_SET 1
#include "simd.h"
#include "dense_body.h"
#undef SIMD_SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#define SIMD_SET 2
#include "simd.h"
#include "dense_body.h"
#undef SIMD_SET
#pragma GCC pop_options
#endif

long dense_panel_width(enum instruction_set set)
{
    return set == SET_AVX512 ? 32 : set == SET_AVX2 ? 16 : 8;
}

void dense_pack(enum instruction_set set, const float *weights, long num_outputs, long num_inputs, float *panels,
                long first, long step)
{
    const long width = dense_panel_width(set);
    for (long start = 0; start < num_outputs; start += width) {
        float *panel = panels + (first + start / width * step) * num_inputs * width;
        const long used = num_outputs - start < width ? num_outputs - start : width;
        for (long k = 0; k < num_inputs; k++)
            for (long c = 0; c < width; c++)
                panel[k * width + c] = c < used ? weights[(start + c) * num_inputs + k] : 0.0f;
    }
}

struct dense_work {
    const struct dense_call *call;
    long block_rows, num_blocks;       /* rows of x in one task; tasks below each other */
    long group_panels, num_panels, num_groups; /* panels in one task; tasks beside each other */
    atomic_long next;
};

static void dense_worker(void *data)
{
    struct dense_work *work = data;
    const struct dense_call *call = work->call;
    long task;
    while ((task = team_next(&work->next, work->num_blocks * work->num_groups)) >= 0) {
        const long panel = task % work->num_groups * work->group_panels;
        const long row = task / work->num_groups * work->block_rows;
        const long end = panel + work->group_panels < work->num_panels ? panel + work->group_panels : work->num_panels;
        const long rows = call->num_rows - row < work->block_rows ? call->num_rows - row : work->block_rows;
        FOR_SET(call->set, dense_task, call, panel, end, row, rows);
    }
}

void dense_run(const struct dense_call *call)
{
    struct dense_work work = {.call = call};
    if (call->num_rows == 0)
        return;
    const long width = dense_panel_width(call->set);
    long rows = L2_BLOCK_FLOATS / call->num_inputs / 12 * 12; /* whole tiles of 6 and of 12 rows */
    rows = rows < 24 ? 24 : rows > MAX_BLOCK_ROWS ? MAX_BLOCK_ROWS : rows;
    work.block_rows = call->num_rows < rows ? call->num_rows : rows;
    work.num_blocks = (call->num_rows + work.block_rows - 1) / work.block_rows;
    work.num_panels = (call->num_outputs + width - 1) / width;
    /* A thread takes several tasks, so that one that is late takes fewer; small tasks would fight over the counter. */
    const long num_tasks = 8L * call->num_threads / work.num_blocks;
    work.group_panels = num_tasks > 1 ? (work.num_panels + num_tasks - 1) / num_tasks : work.num_panels;
    work.num_groups = (work.num_panels + work.group_panels - 1) / work.group_panels;
    team_run(dense_worker, &work, call->num_threads);
}

struct norm_work {
    enum instruction_set set;
    const float *x;
    long x_stride;
    const float *weight;
    float epsilon, *y;
    long y_stride, num_rows, width;
    atomic_long next;
};

#define NORM_ROWS 16 /* rows in one task */

static void norm_worker(void *data)
{
    struct norm_work *work = data;
    long task;
    while ((task = team_next(&work->next, (work->num_rows + NORM_ROWS - 1) / NORM_ROWS)) >= 0)
        for (long row = task * NORM_ROWS; row < (task + 1) * NORM_ROWS && row < work->num_rows; row++)
            FOR_SET(work->set, norm_row, work->x + row * work->x_stride, work->weight, work->epsilon,
                    work->y + row * work->y_stride, work->width);
}

void dense_rms_norm(enum instruction_set set, const float *x, long x_stride, const float *weight, float epsilon,
                    float *y, long y_stride, long num_rows, long width, int num_threads)
{
    struct norm_work work = {set, x, x_stride, weight, epsilon, y, y_stride, num_rows, width, 0};
    team_run(norm_worker, &work, num_rows > NORM_ROWS ? num_threads : 1);
}
