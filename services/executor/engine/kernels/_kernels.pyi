def choose_team(which: int, num_threads: int) -> None: ...
def is_usable(which: int) -> bool: ...
def best() -> int: ...

class PagedMemory:
    def __init__(
        self,
        address: int,
        num_kv_layers: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        which: int,
        num_threads: int,
    ) -> None: ...
    def attend(
        self,
        kv_layer: int,
        queries: int,
        query_stride: int,
        output: int,
        output_stride: int,
        num_heads: int,
        scale: float,
        segments: int,
        num_segments: int,
        tables: int,
    ) -> None: ...
    def rope_store(
        self,
        kv_layer: int,
        qkv: int,
        qkv_stride: int,
        num_heads: int,
        table: int,
        positions: int,
        slots: int,
        q_norm: int,
        k_norm: int,
        epsilon: float,
        num_rows: int,
    ) -> None: ...

def panel_width(which: int) -> int: ...
def pack(
    which: int, weights: int, num_outputs: int, num_inputs: int, panels: int, first: int, step: int
) -> None: ...
def linear(
    which: int,
    end: int,
    x: int,
    x_stride: int,
    panels: int,
    bias: int,
    y: int,
    y_stride: int,
    num_rows: int,
    num_inputs: int,
    num_outputs: int,
    num_threads: int,
) -> None: ...
def rms_norm(
    which: int,
    x: int,
    x_stride: int,
    weight: int,
    epsilon: float,
    y: int,
    y_stride: int,
    num_rows: int,
    width: int,
    num_threads: int,
) -> None: ...
