"""From a file to the records that are wanted of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import msgspec

from baton.services.loadgen.load_errors import BadLoad, BadTrace
from baton.services.loadgen.traces.agentic import read_agentic
from baton.services.loadgen.traces.azure import COLUMNS, read_azure
from baton.services.loadgen.traces.lines import broken, numbered_lines
from baton.services.loadgen.traces.mooncake import read_mooncake
from baton.services.loadgen.traces.prompts import read_prompts
from baton.services.loadgen.traces.records import Limits, TraceFormat, TraceRecord

READERS: dict[TraceFormat, Callable[[Path], Iterator[TraceRecord]]] = {
    TraceFormat.MOONCAKE: read_mooncake,
    TraceFormat.AZURE: read_azure,
    TraceFormat.AGENTIC: read_agentic,
    TraceFormat.PROMPTS: read_prompts,
}
ENDING = ".jsonl"
_SAMPLES = files("baton.services.loadgen.traces") / "samples"
#: a field that only this format has
MARKS = {
    TraceFormat.AGENTIC: {"requests"},
    TraceFormat.MOONCAKE: {"hash_ids", "input_length"},
    TraceFormat.PROMPTS: {"prompt", "messages"},
}


def samples() -> list[str]:
    """Names of the traces that ship with the package; `tools/sample_traces.py` made them."""
    return sorted(entry.name.removesuffix(ENDING) for entry in _SAMPLES.iterdir() if entry.name.endswith(ENDING))


def path_of(trace: str) -> Path:
    """One of the package's by its name, or a file by its path."""
    return Path(str(_SAMPLES / f"{trace}{ENDING}")) if trace in samples() else Path(trace)


def format_of(path: Path) -> TraceFormat:
    """What the first line says. Raises BadTrace."""
    for number, line in numbered_lines(path):
        if line.startswith(COLUMNS[0].encode()):
            return TraceFormat.AZURE
        try:
            fields = set(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if line.startswith(b"{"):
                raise broken(path, number, f"this is not one JSON object: {error}") from None
            break
        for found, marks in MARKS.items():
            if marks & fields:
                return found
        break
    raise BadTrace(f"{path}:1: this is none of the formats {', '.join(READERS)}")


def read_trace(path: Path, trace_format: TraceFormat, limits: Limits) -> WantedRecords:
    """Raises BadLoad, and so does reading them."""
    if trace_format == TraceFormat.AUTO:
        trace_format = format_of(path)
    if trace_format == TraceFormat.AGENTIC and (limits.start_s or limits.end_s):
        raise BadLoad(f"{path}: sessions have no common clock; limit their number or that of requests")
    if trace_format != TraceFormat.AGENTIC and limits.num_sessions:
        raise BadLoad(f"{path}: there are no sessions in it; limit the number of requests")
    return WantedRecords(READERS[trace_format](path), limits, path)


class WantedRecords:
    """The records of a trace within the limits, to be read once and no further than needed. Places, and numbers of
    sessions, are among those that the limits of time and context leave."""

    def __init__(self, records: Iterator[TraceRecord], limits: Limits, path: Path) -> None:
        self.num_left_out = 0  #: so far: too long, or after one that is
        self._records = records
        self._limits = limits
        self._path = path

    def __iter__(self) -> Iterator[TraceRecord]:
        """Raises BadLoad."""
        for number, record in enumerate(self._fitting(self._in_window()), 1):
            if self._limits.num_sessions and record.session_number == self._limits.num_sessions:
                return
            yield record
            if number == self._limits.num_requests:
                return

    def _in_window(self) -> Iterator[TraceRecord]:
        start_s, end_s = self._limits.start_s, self._limits.end_s or float("inf")
        if (start_s, end_s) == (0.0, float("inf")):
            yield from self._records
            return
        for record in self._records:
            if record.at_s is None:
                raise BadLoad(f"{self._path}: a window of time, and no times in the file")
            if start_s <= record.at_s < end_s:
                yield msgspec.structs.replace(record, at_s=record.at_s - start_s)

    def _fitting(self, records: Iterator[TraceRecord]) -> Iterator[TraceRecord]:
        """What comes after a request that is left out is left out, too."""
        most = self._limits.max_context_tokens
        if not most:
            yield from records
            return
        places: dict[int, int] = {}  #: in the trace → among those that are kept
        sessions: dict[int, int] = {}
        for place, record in enumerate(records):
            if not record.num_input_tokens:
                raise BadLoad(f"max_context_tokens: {self._path} has texts, whose lengths in tokens are not known")
            is_too_long = record.num_input_tokens + record.max_tokens > most
            if is_too_long or (record.after is not None and record.after not in places):
                self.num_left_out += 1
                continue
            places[place] = len(places)
            yield msgspec.structs.replace(
                record,
                after=None if record.after is None else places[record.after],
                session_number=sessions.setdefault(record.session_number, len(sessions)),
            )
