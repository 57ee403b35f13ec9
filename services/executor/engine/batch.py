"""One step as flat arrays: a row for each decode, then one for every token of every item, in the order of the plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baton.core.executor.steps import StepItem
from baton.services.executor.engine.sequences import DeviceSequence


class Chunk(NamedTuple):
    """Rows `[row, row + num_tokens)` of the batch are positions from `start` on of a sequence with these blocks."""

    row: int
    num_tokens: int
    start: int
    blocks: np.ndarray  #: int64[num_blocks], enough for `start + num_tokens` positions


class Batch(NamedTuple):
    """All arrays are int64 unless said. `num_tokens` rows; chunks have several tokens, decodes one."""

    tokens: np.ndarray  #: [num_tokens]
    positions: np.ndarray  #: [num_tokens]
    slots: np.ndarray  #: [num_tokens], `block_id * block_size + offset`: where the row's KV goes
    chunks: list[Chunk]
    decode_rows: np.ndarray  #: [num_decodes]
    decode_lengths: np.ndarray  #: [num_decodes], context with the row's own token
    decode_tables: np.ndarray  #: int32[num_decodes, widest block table], zero-padded
    sample_rows: np.ndarray  #: [num_sampled]
    item_rows: list[int]  #: the first row of each item


def build_batch(
    decoding: list[DeviceSequence], items: tuple[StepItem, ...], sequences: list[DeviceSequence], block_size: int
) -> Batch:
    """Each of `decoding` computes the last token that it knows; `sequences[i]` is the sequence of `items[i]`. Block
    tables are extended already."""
    row = len(decoding)
    tokens = [sequence.tokens[-1] for sequence in decoding]
    positions = [len(sequence.tokens) - 1 for sequence in decoding]
    slots = [
        sequence.blocks[position // block_size] * block_size + position % block_size
        for sequence, position in zip(decoding, positions, strict=True)
    ]
    chunks: list[Chunk] = []
    decodes = [(index, len(sequence.tokens), sequence) for index, sequence in enumerate(decoding)]
    sample_rows = list(range(row))
    item_rows = []
    for item, sequence in zip(items, sequences, strict=True):
        end = item.start + item.num_tokens
        if item.num_tokens == 1:
            tokens.append(sequence.tokens[item.start])
            positions.append(item.start)
            slots.append(sequence.blocks[item.start // block_size] * block_size + item.start % block_size)
            decodes.append((row, end, sequence))
        else:
            where = np.arange(item.start, end)
            blocks = np.array(sequence.blocks[: -(-end // block_size)], dtype=np.int64)
            tokens.extend(sequence.tokens[item.start : end])
            positions.extend(where.tolist())
            slots.extend((blocks[where // block_size] * block_size + where % block_size).tolist())
            chunks.append(Chunk(row, item.num_tokens, item.start, blocks))
        item_rows.append(row)
        row += item.num_tokens
        if item.num_samples:
            sample_rows.append(row - 1)
    return Batch(
        np.array(tokens, dtype=np.int64),
        np.array(positions, dtype=np.int64),
        np.array(slots, dtype=np.int64),
        chunks,
        np.array([row for row, _, _ in decodes], dtype=np.int64),
        np.array([length for _, length, _ in decodes], dtype=np.int64),
        _pad_tables(decodes, block_size),
        np.array(sample_rows, dtype=np.int64),
        item_rows,
    )


def _pad_tables(decodes: list[tuple[int, int, DeviceSequence]], block_size: int) -> np.ndarray:
    widths = [-(-length // block_size) for _, length, _ in decodes]
    tables = np.zeros((len(decodes), max(widths, default=0)), dtype=np.int32)
    for table, width, (_, _, sequence) in zip(tables, widths, decodes, strict=True):
        table[:width] = sequence.blocks[:width]
    return tables
