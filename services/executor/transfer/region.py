"""Where KV memory lies, and which bytes of it a piece names."""

from __future__ import annotations

from typing import Literal

import msgspec

from baton.core.executor.events import Piece
from baton.core.layout import KvLayout

MemoryType = Literal["DRAM", "VRAM"]
Descriptor = tuple[int, int, int]  # address, length in bytes, device id: what NIXL calls a descriptor


class KvRegion(msgspec.Struct, frozen=True):
    """One contiguous array of blocks. It must outlive every agent that registered it."""

    base_address: int
    num_blocks: int
    layout: KvLayout
    memory_type: MemoryType = "DRAM"
    device_id: int = 0

    @property
    def num_bytes(self) -> int:
        return self.num_blocks * self.layout.block_bytes

    def block_rows(self) -> tuple[int, int, int, int, int]:
        """All blocks as one strided row: address, length, device, stride, count. It costs the same for any pool."""
        block_bytes = self.layout.block_bytes
        return (self.base_address, block_bytes, self.device_id, block_bytes, self.num_blocks)

    def descriptors(self, block: int, piece: Piece) -> list[Descriptor]:
        """The runs of the piece's slots and planes inside `block`."""
        start = self.base_address + block * self.layout.block_bytes
        runs = self.layout.runs(piece.first_slot, piece.end_slot, piece.first_plane, piece.end_plane)
        return [(start + run.offset, run.length, self.device_id) for run in runs]


def piece_bytes(piece: Piece, layout: KvLayout) -> int:
    """Bytes that the piece writes, as its descriptors say."""
    return (piece.end_slot - piece.first_slot) * (piece.end_plane - piece.first_plane) * layout.slot_bytes


def is_whole_block(piece: Piece, layout: KvLayout) -> bool:
    whole_slots = piece.first_slot == 0 and piece.end_slot == layout.block_size
    return whole_slots and piece.first_plane == 0 and piece.end_plane == layout.num_planes


def piece_fault(piece: Piece, source: KvRegion, destination: KvRegion, max_piece_bytes: int) -> str | None:
    """Why this piece must not be posted, with the numbers that decided; None if it may be."""
    layout = source.layout
    if not 0 <= piece.source_block < source.num_blocks:
        return f"source block {piece.source_block} of {source.num_blocks}"
    if not 0 <= piece.destination_block < destination.num_blocks:
        return f"destination block {piece.destination_block} of {destination.num_blocks}"
    if not 0 <= piece.first_slot < piece.end_slot <= layout.block_size:
        return f"slots [{piece.first_slot}, {piece.end_slot}) of {layout.block_size}"
    if not 0 <= piece.first_plane < piece.end_plane <= layout.num_planes:
        return f"planes [{piece.first_plane}, {piece.end_plane}) of {layout.num_planes}"
    num_bytes = piece_bytes(piece, layout)
    return None if num_bytes <= max_piece_bytes else f"{num_bytes} bytes in a piece of at most {max_piece_bytes}"
