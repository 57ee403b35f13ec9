/* Dense layers on exactly as much memory as they may touch, against sums in double, for each usable instruction set. */
#include "dense.h"
#include "driver.h"

static float *random_floats(long count)
{
    float *values = malloc((size_t)count * sizeof(float));
    EXPECT(values != NULL);
    for (long i = 0; i < count; i++)
        values[i] = (float)draw(2001) / 1000.0f - 1.0f;
    return values;
}

static void drive_layer(enum instruction_set set, long num_rows, long num_inputs, long num_outputs)
{
    const long width = dense_panel_width(set), num_panels = (num_outputs + width - 1) / width;
    float *weights = random_floats(num_outputs * num_inputs), *bias = random_floats(num_outputs);
    float *x = random_floats(num_rows * num_inputs), *y = random_floats(num_rows * num_outputs);
    float *panels = malloc((size_t)(num_panels * width * num_inputs) * sizeof(float));
    EXPECT(panels != NULL);
    dense_pack(set, weights, num_outputs, num_inputs, panels, 0, 1);
    const struct dense_call call = {set, DENSE_STORE, x, num_inputs, panels, bias, y, num_outputs,
                                    num_rows, num_inputs, num_outputs, 2};
    dense_run(&call);
    for (long r = 0; r < num_rows; r++)
        for (long c = 0; c < num_outputs; c++) {
            double sum = bias[c];
            for (long k = 0; k < num_inputs; k++)
                sum += (double)x[r * num_inputs + k] * weights[c * num_inputs + k];
            const double error = sum - y[r * num_outputs + c];
            EXPECT(error < 1e-4 && error > -1e-4);
        }
    dense_rms_norm(set, x, num_inputs, x, 1e-5f, x, num_inputs, num_rows, num_inputs, 1);
    free(weights), free(bias), free(x), free(y), free(panels);
}

void drive_dense(void)
{
    for (int set = SET_PORTABLE; set <= SET_AVX512; set++)
        for (int round = 0; is_set_usable((enum instruction_set)set) && round < 40; round++)
            drive_layer((enum instruction_set)set, 1 + draw(120), 1 + draw(90), 1 + draw(90));
}
