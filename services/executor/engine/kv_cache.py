"""Paged KV memory as one tensor `[block][kv_layer][plane][slot][head][head_dim]`."""

from __future__ import annotations

import ctypes
import mmap

import torch

from baton.core.executor.steps import CopyBlock
from baton.core.layout import KvLayout

TORCH_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class KvCache:
    """The memory of one device; allocated and touched once, never moved."""

    def __init__(self, layout: KvLayout, num_blocks: int) -> None:
        shape = (num_blocks, layout.num_kv_layers, 2, layout.block_size, layout.num_kv_heads, layout.head_dim)
        try:
            self.memory = torch.empty(shape, dtype=TORCH_DTYPES[layout.dtype])
        except RuntimeError as error:  # how torch says that the system gives no memory
            raise MemoryError(f"{num_blocks} blocks of {layout.block_bytes} bytes") from error
        _prefer_large_pages(self.base_address, self.num_bytes)
        self.memory.zero_()  # the system gives a page when it is touched first: now, not under a peer's first writes
        self.num_blocks = num_blocks
        self.block_size = layout.block_size

    @property
    def base_address(self) -> int:
        return self.memory.data_ptr()

    @property
    def num_bytes(self) -> int:
        return self.memory.numel() * self.memory.element_size()

    def copy(self, copy: CopyBlock) -> None:
        """First `num_slots` slots of all planes of one block to another."""
        self.memory[copy.destination, :, :, : copy.num_slots] = self.memory[copy.source, :, :, : copy.num_slots]

    def write(self, kv_layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store [num_tokens, num_kv_heads, head_dim] at int64[num_tokens] slots."""
        blocks, offsets = slots // self.block_size, slots % self.block_size
        self.memory[blocks, kv_layer, 0, offsets] = keys
        self.memory[blocks, kv_layer, 1, offsets] = values

    def gather(self, kv_layer: int, blocks: torch.Tensor, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the first `num_tokens` positions of a block table: each [num_tokens, heads, head_dim]."""
        planes = self.memory[blocks, kv_layer]  # [num_blocks, 2, block_size, heads, head_dim]
        keys = planes[:, 0].flatten(0, 1)[:num_tokens]
        values = planes[:, 1].flatten(0, 1)[:num_tokens]
        return keys, values


def _prefer_large_pages(address: int, num_bytes: int) -> None:
    """Ask for them in memory that nobody has touched. A peer's write looks up each page that it goes to. Only a wish:
    a system without them gives small ones."""
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + num_bytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
