"""A performance run as a trace, in the same format as that of real processes (`baton trace`)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from baton.core.sim.fleet_run.run import FleetRun
from baton.core.trace.chrome import ProcessTrace, chrome_trace
from baton.core.trace.recorder import Record, span_record


def trace_of(run: FleetRun) -> dict[str, Any]:
    """All that the run kept. Nothing of a simulated process is on another clock."""
    records: dict[str, list[Record]] = {name: [] for name in run.gauges}
    for name, kept in _steps(run).items():
        records[name] += kept
    for name, kept in _pieces(run).items():
        records[name] += kept
    for note in run.recorder.notes:
        told = (note.what, note.request_id, note.attempt, note.reason, "", note.numbers, "")
        records[note.process].append(("note", note.time_s, *told))
    for name, span in run.recorder.spans:
        records[name].append(span_record(span, span.ended_at))
    end = run.began_s + run.length_s
    return chrome_trace([_process(name, kept, end) for name, kept in records.items()])


def _process(name: str, records: list[Record], end: float) -> ProcessTrace:
    records.sort(key=lambda record: record[1])
    return ProcessTrace(name, name.rstrip("-0123456789"), end, records)


def _steps(run: FleetRun) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for step_id, step in enumerate(run.recorder.steps, 1):
        of = step.features
        counts = of.decodes, of.tokens, of.prompts + of.decodes
        found[step.executor] += [
            ("launch", step.began_s, step_id, *counts, step.lane),
            ("done", step.began_s + step.duration_s, step_id, step.duration_s, of.rows),
        ]
    return found


def _pieces(run: FleetRun) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for number, piece in enumerate(run.recorder.pieces, 1):
        found[piece.source] += [
            ("post", piece.posted_s, piece.destination, ((number, piece.num_bytes),)),
            ("landed", piece.landed_s, number, piece.posted_s, 0.0),
        ]
    return found
