"""Raw-pointer entry points of `dense.c`; `native.py` beside this module is the facade with shapes and checks."""

from libc.stdint cimport uintptr_t


cdef extern from "instruction_set.h" nogil:
    enum instruction_set:
        pass


cdef extern from "dense.h" nogil:
    enum dense_end:
        pass

    struct dense_call:
        instruction_set set
        dense_end end
        const float *x
        long x_stride
        const float *panels
        const float *bias
        float *y
        long y_stride
        long num_rows
        long num_inputs
        long num_outputs
        int num_threads

    long dense_panel_width(instruction_set which)
    void dense_pack(instruction_set which, const float *weights, long num_outputs, long num_inputs, float *panels,
                    long first, long step)
    void dense_run(const dense_call *call)
    void dense_rms_norm(instruction_set which, const float *x, const float *weight, float epsilon, float *y,
                        long num_rows, long width, int num_threads)


def panel_width(int which):
    """Output columns in one panel of packed weights."""
    return dense_panel_width(<instruction_set>which)


def pack(int which, uintptr_t weights, long num_outputs, long num_inputs, uintptr_t panels, long first, long step):
    """Pack a matrix [num_outputs, num_inputs] into panels first, first + step, …"""
    with nogil:
        dense_pack(<instruction_set>which, <const float *>weights, num_outputs, num_inputs, <float *>panels, first, step)


def linear(int which, int end, uintptr_t x, long x_stride, uintptr_t panels, uintptr_t bias, uintptr_t y, long y_stride,
           long num_rows, long num_inputs, long num_outputs, int num_threads):
    """One dense layer; see `struct dense_call`."""
    cdef dense_call call
    call.set = <instruction_set>which
    call.end = <dense_end>end
    call.x = <const float *>x
    call.x_stride = x_stride
    call.panels = <const float *>panels
    call.bias = <const float *>bias
    call.y = <float *>y
    call.y_stride = y_stride
    call.num_rows = num_rows
    call.num_inputs = num_inputs
    call.num_outputs = num_outputs
    call.num_threads = num_threads
    with nogil:
        dense_run(&call)


def rms_norm(int which, uintptr_t x, uintptr_t weight, float epsilon, uintptr_t y, long num_rows, long width,
             int num_threads):
    """RMS norm of each row."""
    with nogil:
        dense_rms_norm(<instruction_set>which, <const float *>x, <const float *>weight, epsilon, <float *>y, num_rows,
                       width, num_threads)
