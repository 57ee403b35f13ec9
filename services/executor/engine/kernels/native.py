"""The native kernels as functions of tensors: float32, contiguous, on the host. Shapes are checked here, not in C."""

from __future__ import annotations

import numpy as np
import torch

from baton.core.errors import Incompatible
from baton.core.layout import KvLayout
from baton.services.executor.engine.batch import Batch

try:
    from baton.services.executor.engine.kernels import _kernels
except ImportError as error:
    raise ImportError(
        "the native kernels are not built: run `make build` (python setup.py build_ext --inplace)"
    ) from error

STORE, ADD, GATED = 0, 1, 2  #: what follows a product: `enum dense_end` of dense.h
LINE_FLOATS = 16  #: in a cache line
MAX_GROUP = 48  #: query heads for each KV head, at most: ATTENTION_ROWS of paged_attention.h


def choose_team(which: int, num_threads: int) -> None:
    """From now on kernels called from this thread compute on the threads of team 0 or 1, at most `num_threads` at once.

    The team's threads begin with the niceness and the cores of the thread that needs them first. Until a thread has
    said otherwise it uses team 0 and as many threads as each call asks for.
    """
    _kernels.choose_team(which, num_threads)


def best_set() -> int:
    """The widest instruction set here: 0 portable, 1 AVX2, 2 AVX-512."""
    return int(_kernels.best())


def usable_sets() -> list[int]:
    return [which for which in range(3) if _kernels.is_usable(which)]


def empty_rows(num_rows: int, width: int) -> torch.Tensor:
    """[num_rows, width] whose rows begin an odd number of cache lines apart.

    Kernels read several rows side by side: at a distance of a large power of two they would fight over the same places
    in the L1 cache (rows of 1,536 floats made products 40 % slower).
    """
    return torch.empty(num_rows, (-(-width // LINE_FLOATS) | 1) * LINE_FLOATS)[:, :width]


def is_supported(layout: KvLayout, num_heads: int) -> bool:
    """Whether the native kernels compute this geometry."""
    is_dim_fitting = layout.head_dim % 16 == 0 and layout.head_dim <= 256
    return layout.dtype == "float32" and is_dim_fitting and num_heads // layout.num_kv_heads <= MAX_GROUP


class PackedLinear:
    """A matrix [num_outputs, num_inputs] in panels; if gated, gate rows above up rows, result silu(gate) * up."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, which: int, *, is_gated: bool = False) -> None:
        weight = weight.float().contiguous()
        num_rows, self.num_inputs = weight.shape
        num_parts = 2 if is_gated else 1
        self.num_outputs = num_rows // num_parts
        self._which = which
        self._is_gated = is_gated
        width = _kernels.panel_width(which)
        num_panels = -(-self.num_outputs // width)
        self._panels = torch.empty(num_parts * num_panels * width * self.num_inputs)
        for part in range(num_parts):
            rows = weight[part * self.num_outputs :]
            _kernels.pack(
                which, rows.data_ptr(), self.num_outputs, self.num_inputs, self._panels.data_ptr(), part, num_parts
            )
        self._bias = None if bias is None else bias.float().contiguous()

    def __call__(self, rows: torch.Tensor, num_threads: int, added_to: torch.Tensor | None = None) -> torch.Tensor:
        """[num_rows, num_inputs] → [num_rows, num_outputs], or added in place to `added_to`."""
        num_rows = rows.shape[0]
        result = empty_rows(num_rows, self.num_outputs) if added_to is None else added_to
        end = GATED if self._is_gated else STORE if added_to is None else ADD
        bias = 0 if self._bias is None else self._bias.data_ptr()
        _kernels.linear(
            self._which,
            end,
            rows.data_ptr(),
            rows.stride(0),
            self._panels.data_ptr(),
            bias,
            result.data_ptr(),
            result.stride(0),
            num_rows,
            self.num_inputs,
            self.num_outputs,
            num_threads,
        )
        return result


def rms_norm(rows: torch.Tensor, weight: torch.Tensor, epsilon: float, which: int, num_threads: int) -> torch.Tensor:
    """Of each row of [num_rows, width]."""
    num_rows, width = rows.shape
    result = empty_rows(num_rows, width)
    _kernels.rms_norm(
        which,
        rows.data_ptr(),
        rows.stride(0),
        weight.data_ptr(),
        epsilon,
        result.data_ptr(),
        result.stride(0),
        num_rows,
        width,
        num_threads,
    )
    return result


class AttentionStep:
    """A batch's arrays as the kernels want them; made once for all layers of a step."""

    def __init__(self, batch: Batch) -> None:
        self.positions = batch.positions
        self.slots = batch.slots
        decodes = len(batch.decode_rows)
        segments = np.empty((decodes + len(batch.chunks), 4), dtype=np.int64)  # row, num_tokens, start, table
        segments[:decodes, 0] = batch.decode_rows
        segments[:decodes, 1] = 1
        segments[:decodes, 2] = batch.decode_lengths - 1
        segments[:decodes, 3] = np.arange(decodes) * batch.decode_tables.shape[1]
        tables = [batch.decode_tables.reshape(-1)]
        table = batch.decode_tables.size
        for index, chunk in enumerate(batch.chunks, start=decodes):
            segments[index] = chunk.row, chunk.num_tokens, chunk.start, table
            tables.append(chunk.blocks.astype(np.int32))
            table += len(chunk.blocks)
        self.segments = segments
        self.tables = np.concatenate(tables)


class NativeAttention:
    """Rotation, KV store and attention on one KV memory."""

    def __init__(self, memory: torch.Tensor, num_heads: int, which: int, num_threads: int) -> None:
        """`memory` float32 [block][kv_layer][plane][slot][kv_head][head_dim]."""
        _, num_kv_layers, _, block_size, num_kv_heads, head_dim = memory.shape
        if memory.dtype != torch.float32 or not memory.is_contiguous():
            raise Incompatible("the native kernels need contiguous float32 KV memory")
        self._memory = _kernels.PagedMemory(
            memory.data_ptr(), num_kv_layers, block_size, num_kv_heads, head_dim, which, num_threads
        )
        self._num_heads = num_heads
        self._scale = head_dim**-0.5
        self._width = num_heads * head_dim

    def rope_store(
        self,
        kv_layer: int,
        qkv: torch.Tensor,
        table: torch.Tensor,
        step: AttentionStep,
        norms: tuple[torch.Tensor, torch.Tensor] | None,
        epsilon: float,
    ) -> None:
        """qkv [num_tokens, q + k + v heads]: queries are (normed and) rotated in place, keys and values are stored."""
        q_norm, k_norm = (0, 0) if norms is None else (norms[0].data_ptr(), norms[1].data_ptr())
        self._memory.rope_store(
            kv_layer,
            qkv.data_ptr(),
            qkv.stride(0),
            self._num_heads,
            table.data_ptr(),
            step.positions.ctypes.data,
            step.slots.ctypes.data,
            q_norm,
            k_norm,
            epsilon,
            qkv.shape[0],
        )

    def attend(self, kv_layer: int, qkv: torch.Tensor, step: AttentionStep) -> torch.Tensor:
        """[num_tokens, num_heads * head_dim] of queries that `rope_store` has rotated."""
        attended = empty_rows(qkv.shape[0], self._width)
        self._memory.attend(
            kv_layer,
            qkv.data_ptr(),
            qkv.stride(0),
            attended.data_ptr(),
            attended.stride(0),
            self._num_heads,
            self._scale,
            step.segments.ctypes.data,
            len(step.segments),
            step.tables.ctypes.data,
        )
        return attended
