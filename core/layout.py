"""What two executors must agree on before a KV byte moves: the geometry of one block and who made the numbers in it.

KV memory is one array `[block][kv_layer][plane][slot][head][head_dim]`, so that a whole block is one contiguous run.
`kv_layer` counts places where KV is kept, not layers of the model: a looped model keeps KV for each pass.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import NamedTuple

import msgspec

DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
NUM_PLANES = 2  # keys and values


class Run(NamedTuple):
    """A contiguous run of bytes inside one block: `[offset, offset + length)`."""

    offset: int
    length: int


def anchor_of(num_blocks: int, checkpoint_blocks: int) -> int:
    """P1: of so many leading blocks, those from whose end computing can go on: all with attention alone, up to the last
    saved state where layers are recurrent."""
    return num_blocks - num_blocks % checkpoint_blocks


class KvLayout(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Geometry of the paged KV memory of one executor."""

    num_kv_layers: int  #: places that hold KV for each token (layers × passes)
    num_kv_heads: int
    head_dim: int
    dtype: str  #: a key of DTYPE_BYTES
    block_size: int  #: token slots per block
    model_fingerprint: str  #: digest of configuration and weights
    tokenizer_fingerprint: str
    checkpoint_blocks: int = 1  #: blocks between positions from which computing can go on: 1 with attention alone

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes of one token in one plane of one KV layer."""
        return self.num_kv_heads * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def plane_bytes(self) -> int:
        return self.block_size * self.slot_bytes

    @property
    def block_bytes(self) -> int:
        return self.num_kv_layers * NUM_PLANES * self.plane_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of KV that one token has over all layers and planes."""
        return self.num_kv_layers * NUM_PLANES * self.slot_bytes

    def anchor(self, num_blocks: int) -> int:
        """See `anchor_of`."""
        return anchor_of(num_blocks, self.checkpoint_blocks)

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def layers_to_tell(self) -> list[int]:
        """After which of its KV layers a step is told to have come so far: half of what is left at each time, so that
        few words leave little to send when the step ends."""
        told, left = [], self.num_kv_layers
        while left > 1:
            left //= 2
            told.append(self.num_kv_layers - left)
        return told

    def fingerprint(self) -> bytes:
        """16 bytes, equal only for equal layouts; compared in the handshake and mixed into every block hash."""
        return hashlib.blake2b(msgspec.msgpack.encode(self), digest_size=16).digest()

    def runs(self, first_slot: int, end_slot: int, first_plane: int, end_plane: int) -> list[Run]:
        """Runs of slots `[first_slot, end_slot)` in planes `[first_plane, end_plane)`, counted over all KV layers.

        Whole planes are adjacent and give one run; part of the slots gives one run for each plane.
        """
        if first_slot == 0 and end_slot == self.block_size:
            return [Run(first_plane * self.plane_bytes, (end_plane - first_plane) * self.plane_bytes)]
        length = (end_slot - first_slot) * self.slot_bytes
        shift = first_slot * self.slot_bytes
        return [Run(plane * self.plane_bytes + shift, length) for plane in range(first_plane, end_plane)]

    @property
    def num_planes(self) -> int:
        """Planes of a block over all KV layers."""
        return self.num_kv_layers * NUM_PLANES
