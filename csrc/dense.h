/* Dense float32 layers over rows of tokens: y = x · Wᵀ with what follows it, and the RMS norm before it.
 *
 * Weights are packed once into panels of `dense_panel_width` output columns, `[panel][num_inputs][width]`, zero-padded.
 * Each output is one sum over the inputs from the first to the last, whatever the number of rows or threads: a token's
 * numbers do not depend on the batch that it is computed in. */
#ifndef BATON_DENSE_H
#define BATON_DENSE_H

#include "instruction_set.h"

enum dense_end {
    DENSE_STORE = 0, /* y = x · Wᵀ + bias */
    DENSE_ADD = 1,   /* y += x · Wᵀ + bias */
    DENSE_GATED = 2  /* y = silu(gate) * up; the panels of gate and up alternate, the bias is gate's then up's */
};

struct dense_call {
    enum instruction_set set;
    enum dense_end end;
    const float *x; /* [num_rows][x_stride], the first num_inputs of a row are used */
    long x_stride;
    const float *panels;
    const float *bias; /* or NULL */
    float *y;          /* [num_rows][y_stride] */
    long y_stride;
    long num_rows;
    long num_inputs;
    long num_outputs; /* columns of y: with DENSE_GATED half of the matrix's rows */
    int num_threads;
};

long dense_panel_width(enum instruction_set set);

/* Panel i of [num_outputs][num_inputs] goes to panel first + i * step of `panels`. */
void dense_pack(enum instruction_set set, const float *weights, long num_outputs, long num_inputs, float *panels,
                long first, long step);

void dense_run(const struct dense_call *call);

/* y[row] = x[row] * weight / sqrt(mean(x[row]²) + epsilon), `width` floats of each row; y may be x. */
void dense_rms_norm(enum instruction_set set, const float *x, long x_stride, const float *weight, float epsilon,
                    float *y, long y_stride, long num_rows, long width, int num_threads);

#endif
