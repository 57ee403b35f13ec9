"""Raw-pointer entry points of `dense.c` and `paged_attention.c`, in one module because they share the threads of
`team.c`; `native.py` beside this module is the facade with shapes and checks."""

from libc.stdint cimport int32_t, int64_t, uintptr_t


cdef extern from "instruction_set.h" nogil:
    enum instruction_set:
        pass
    int is_set_usable(instruction_set which)
    instruction_set best_set()


cdef extern from "paged_attention.h" nogil:
    struct kv_memory:
        float *layer
        long block_stride
        long plane_stride
        long block_size
        long num_kv_heads
        long head_dim

    struct attention_segment:
        pass

    struct attention_call:
        instruction_set set
        kv_memory kv
        const float *queries
        long query_stride
        float *output
        long output_stride
        long num_heads
        float scale
        const attention_segment *segments
        long num_segments
        const int32_t *tables
        int num_threads

    struct rope_call:
        instruction_set set
        kv_memory kv
        float *qkv
        long qkv_stride
        long num_heads
        const float *table
        const int64_t *positions
        const int64_t *slots
        const float *q_norm
        const float *k_norm
        float epsilon
        long num_rows
        int num_threads

    int attention_run(const attention_call *call)
    void rope_store_run(const rope_call *call)


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
    void dense_rms_norm(instruction_set which, const float *x, long x_stride, const float *weight, float epsilon,
                        float *y, long y_stride, long num_rows, long width, int num_threads)


cdef extern from "team.h" nogil:
    enum:
        TEAM_COUNT
    void team_choose(int which, int num_threads)


def choose_team(int which, int num_threads):
    """From now on kernels called from this thread use the threads of team `which`, and at most `num_threads` at once,
    the caller included."""
    if not 0 <= which < TEAM_COUNT or num_threads < 1:
        raise ValueError(f"team {which} of {TEAM_COUNT} with {num_threads} threads")
    team_choose(which, num_threads)


def is_usable(int which):
    """Whether this processor has instruction set 0 (portable), 1 (AVX2) or 2 (AVX-512)."""
    return bool(is_set_usable(<instruction_set>which))


def best():
    """The widest instruction set that this processor has."""
    return <int>best_set()


cdef class PagedMemory:
    """Where KV memory lies; the geometry of `KvLayout` in floats."""

    cdef kv_memory base  #: of KV layer 0
    cdef long layer_stride  #: floats from one KV layer of a block to the next
    cdef int which  #: instruction set
    cdef int num_threads

    def __init__(self, uintptr_t address, long num_kv_layers, long block_size, long num_kv_heads, long head_dim,
                 int which, int num_threads):
        if not is_set_usable(<instruction_set>which):
            raise ValueError(f"this processor lacks instruction set {which}")
        if head_dim % 16 or not 0 < head_dim <= 256:
            raise ValueError(f"head_dim {head_dim} is no multiple of 16 up to 256")
        self.base.layer = <float *>address
        self.base.plane_stride = block_size * num_kv_heads * head_dim
        self.layer_stride = 2 * self.base.plane_stride
        self.base.block_stride = num_kv_layers * self.layer_stride
        self.base.block_size = block_size
        self.base.num_kv_heads = num_kv_heads
        self.base.head_dim = head_dim
        self.which = which
        self.num_threads = num_threads

    def attend(self, long kv_layer, uintptr_t queries, long query_stride, uintptr_t output, long output_stride,
               long num_heads, float scale, uintptr_t segments, long num_segments, uintptr_t tables):
        """Attention of all segments; see `struct attention_call`."""
        cdef attention_call call
        cdef int status
        call.set = <instruction_set>self.which
        call.kv = self.base
        call.kv.layer = self.base.layer + kv_layer * self.layer_stride
        call.queries = <const float *>queries
        call.query_stride = query_stride
        call.output = <float *>output
        call.output_stride = output_stride
        call.num_heads = num_heads
        call.scale = scale
        call.segments = <const attention_segment *>segments
        call.num_segments = num_segments
        call.tables = <const int32_t *>tables
        call.num_threads = self.num_threads
        with nogil:
            status = attention_run(&call)
        if status != 0:
            raise MemoryError("no memory for the attention's task list")

    def rope_store(self, long kv_layer, uintptr_t qkv, long qkv_stride, long num_heads, uintptr_t table,
                   uintptr_t positions, uintptr_t slots, uintptr_t q_norm, uintptr_t k_norm, float epsilon, long num_rows):
        """Rotate queries and keys, store keys and values; see `struct rope_call`. Norms may be 0."""
        cdef rope_call call
        call.set = <instruction_set>self.which
        call.kv = self.base
        call.kv.layer = self.base.layer + kv_layer * self.layer_stride
        call.qkv = <float *>qkv
        call.qkv_stride = qkv_stride
        call.num_heads = num_heads
        call.table = <const float *>table
        call.positions = <const int64_t *>positions
        call.slots = <const int64_t *>slots
        call.q_norm = <const float *>q_norm
        call.k_norm = <const float *>k_norm
        call.epsilon = epsilon
        call.num_rows = num_rows
        call.num_threads = self.num_threads
        with nogil:
            rope_store_run(&call)


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


def rms_norm(int which, uintptr_t x, long x_stride, uintptr_t weight, float epsilon, uintptr_t y, long y_stride,
             long num_rows, long width, int num_threads):
    """RMS norm of each row."""
    with nogil:
        dense_rms_norm(<instruction_set>which, <const float *>x, x_stride, <const float *>weight, epsilon, <float *>y,
                       y_stride, num_rows, width, num_threads)
