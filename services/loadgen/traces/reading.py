"""From a file to the records that are wanted of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from baton.services.loadgen.load_errors import BadLoad, BadTrace
from baton.services.loadgen.traces.agentic import read_agentic
from baton.services.loadgen.traces.azure import COLUMNS, read_azure
from baton.services.loadgen.traces.lines import numbered_lines
from baton.services.loadgen.traces.mooncake import read_mooncake
from baton.services.loadgen.traces.prompts import read_prompts
from baton.services.loadgen.traces.records import Limits, TraceFormat, TraceRecord

READERS: dict[TraceFormat, Callable[[Path], Iterator[TraceRecord]]] = {
    TraceFormat.MOONCAKE: read_mooncake,
    TraceFormat.AZURE: read_azure,
    TraceFormat.AGENTIC: read_agentic,
    TraceFormat.PROMPTS: read_prompts,
}
#: a field that only this format has
MARKS = {
    TraceFormat.AGENTIC: {"requests"},
    TraceFormat.MOONCAKE: {"hash_ids", "input_length"},
    TraceFormat.PROMPTS: {"prompt", "messages"},
}


def format_of(path: Path) -> TraceFormat:
    """What the first line says. Raises BadTrace."""
    for _, line in numbered_lines(path):
        if line.startswith(COLUMNS[0].encode()):
            return TraceFormat.AZURE
        try:
            fields = set(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        for found, marks in MARKS.items():
            if marks & fields:
                return found
        break
    raise BadTrace(f"{path}:1: this is none of the formats {', '.join(READERS)}")


def read_trace(path: Path, trace_format: TraceFormat, limits: Limits) -> Iterator[TraceRecord]:
    """The records within the limits; `after` still counts those from the first. Reads no further than needed.
    Raises BadLoad."""
    if trace_format == TraceFormat.AUTO:
        trace_format = format_of(path)
    if trace_format == TraceFormat.AGENTIC and (limits.start_s or limits.end_s):
        raise BadLoad(f"{path}: sessions have no common clock; limit their number or that of requests")
    if trace_format != TraceFormat.AGENTIC and limits.num_sessions:
        raise BadLoad(f"{path}: there are no sessions in it; limit the number of requests")
    return _limited(READERS[trace_format](path), limits, path)


def _limited(records: Iterator[TraceRecord], limits: Limits, path: Path) -> Iterator[TraceRecord]:
    num_yielded = 0
    for record in records:
        if limits.start_s or limits.end_s:
            if record.at_s is None:
                raise BadLoad(f"{path}: a window of time, and no times in the file")
            if not limits.start_s <= record.at_s < (limits.end_s or float("inf")):
                continue
            record = msgspec.structs.replace(record, at_s=record.at_s - limits.start_s)
        if limits.num_sessions and record.session_number == limits.num_sessions:
            return
        yield record
        num_yielded += 1
        if num_yielded == limits.num_requests:
            return
