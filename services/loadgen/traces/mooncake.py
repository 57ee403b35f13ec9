"""Mooncake's traces: JSON lines with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`, one for each
block of 512 tokens, the last of which may be full or not; more than the length needs are passed over. Equal ids are
equal tokens, in all requests of the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from baton.services.loadgen.traces.lines import Count, broken, decode_line, numbered_lines
from baton.services.loadgen.traces.records import TraceRecord, runs_of

BLOCK_SIZE = 512

Length = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]  #: tokens; a request has both


class _Line(msgspec.Struct, frozen=True):
    timestamp: Annotated[float, msgspec.Meta(ge=0)]  #: ms
    input_length: Length
    output_length: Length
    hash_ids: list[Count]


def read_mooncake(path: Path) -> Iterator[TraceRecord]:
    """Raises BadTrace."""
    decoder = msgspec.json.Decoder(_Line)
    for number, line in numbered_lines(path):
        request = decode_line(decoder, path, number, line)
        num_blocks = -(-request.input_length // BLOCK_SIZE)
        if len(request.hash_ids) < num_blocks:
            what = f"{request.input_length} tokens are {num_blocks} blocks of {BLOCK_SIZE}"
            raise broken(path, number, f"$.hash_ids: {len(request.hash_ids)} ids, and {what}")
        yield TraceRecord(
            at_s=request.timestamp / 1000,
            num_input_tokens=request.input_length,
            max_tokens=request.output_length,
            blocks=runs_of(request.hash_ids),
            block_size=BLOCK_SIZE,
        )
