"""The file of a run: what was run, by what and where, and its figures. The facts lie beside it, one request a line.

A report is JSON; whoever measured fills in the machine and the settings, which are compared and shown, never read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from baton.core.errors import ServingError
from baton.core.file_errors import what_and_field
from baton.core.metrics.compat import Compat
from baton.core.metrics.executors import ExecutorUse
from baton.core.metrics.facts import RequestFacts, TokenChunks
from baton.core.metrics.intervals import Estimate
from baton.core.metrics.over_time import Series
from baton.core.metrics.summary import Summary

FORMAT_VERSION = 1


class BadReport(ServingError):
    """The bytes are no report, or no facts, of this format."""

    def __init__(self, what: str, *, line: int = 0, field: str = "") -> None:
        self.line = line  #: of a file of facts, from 1; 0: a report
        self.field = field  #: path to what is wrong; empty: the whole
        place = ", ".join(part for part in (f"line {line}" if line else "", f"field {field}" if field else "") if part)
        super().__init__(f"{place}: {what}" if place else what)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What was run. Mappings are opaque: name → text or number, in one level."""

    target: str  #: the server's address, or what stood for one
    model: str
    seed: int
    salt: str = ""  #: of its prompts: with it and the seed they can be made again; empty: with the seed alone
    plan_fingerprint: str  #: of the plan; equal ones say that request i is the same in both runs
    settings: dict[str, Any]  #: of the load and of what is asked of the server
    machine: dict[str, Any]
    versions: dict[str, str]  #: of the program and of the server, as far as known
    began_at: str = ""  #: ISO 8601, UTC


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run; a sweep is several."""

    format_version: int = FORMAT_VERSION
    label: str = ""  #: of a point of a sweep: what is varied, and its value
    run: Run
    summary: Summary
    series: Series
    compat: tuple[Compat, ...] = ()
    server_series: dict[str, tuple[tuple[float, float], ...]] = {}  #: what the server said of itself: (time, value)
    executors: tuple[ExecutorUse, ...] = ()  #: of a simulated run
    warnings: tuple[str, ...] = ()  #: where the load, or what is measured, may not be what was asked for
    notes: tuple[str, ...] = ()  #: what a reader should know of what was run
    intervals: dict[str, Estimate] = {}  #: by the names of `intervals.headline`; of several runs, if there were


class _Version(msgspec.Struct):
    format_version: int


_report_decoder = msgspec.json.Decoder(Report)
_version_decoder = msgspec.json.Decoder(_Version)
_facts_decoder = msgspec.json.Decoder(RequestFacts)


def encode_report(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def decode_report(data: bytes) -> Report:
    """Raises BadReport, also for another version of the format."""
    try:
        version = _version_decoder.decode(data).format_version
        if version != FORMAT_VERSION:
            raise BadReport(f"format {version}, this program reads {FORMAT_VERSION}", field="format_version")
        return _report_decoder.decode(data)
    except msgspec.DecodeError as error:
        raise _bad(error, 0) from error
    except UnicodeDecodeError as error:
        raise BadReport("not UTF-8") from error


def encode_facts(facts: Iterable[RequestFacts]) -> bytes:
    """One line for each."""
    return b"".join(msgspec.json.encode(row, enc_hook=_chunks) + b"\n" for row in facts)


def _chunks(chunks: Any) -> Any:
    if not isinstance(chunks, TokenChunks):
        raise NotImplementedError(f"no line says a {type(chunks).__name__}")
    return tuple(chunks)


def decode_facts(lines: Iterable[bytes]) -> Iterator[RequestFacts]:
    """As they are read, so that what stands before a broken line is not lost. Empty lines are passed over.

    Raises BadReport with the line's number, also for a request that an earlier line named.
    """
    seen: set[int] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _facts_decoder.decode(line)
        except msgspec.DecodeError as error:
            raise _bad(error, number) from error
        except UnicodeDecodeError as error:
            raise BadReport("not UTF-8", line=number) from error
        if row.index in seen:
            raise BadReport(f"request {row.index} is there twice", line=number, field="index")
        seen.add(row.index)
        yield row


def fingerprint(plan: bytes) -> str:
    """Of an encoded plan."""
    return hashlib.blake2b(plan, digest_size=16).hexdigest()


def comparable(a: Report, b: Report) -> tuple[str, ...]:
    """Why the two must not be compared without a word; empty: they may. Versions and targets may differ: they are what
    one compares.
    """
    reasons = [f"{what} differ: {', '.join(names)}" for what, names in _differences(a.run, b.run) if names]
    if a.run.model != b.run.model:
        reasons.append(f"models differ: {a.run.model} and {b.run.model}")
    if a.run.plan_fingerprint != b.run.plan_fingerprint:
        reasons.append("loads differ: the plans are not the same")
    for name, report in (("first", a), ("second", b)):
        reasons += [f"the {name} is degraded: {reason}" for reason in report.summary.degraded]
    return tuple(reasons)


def _differences(a: Run, b: Run) -> Iterator[tuple[str, list[str]]]:
    for what, first, second in (("machines", a.machine, b.machine), ("settings", a.settings, b.settings)):
        # through JSON, so that a report that was read equals the one that was written
        yield what, [name for name in sorted({*first, *second}) if _plain(first, name) != _plain(second, name)]


def _plain(mapping: dict[str, Any], name: str) -> bytes:
    return msgspec.json.encode(mapping[name], order="sorted") if name in mapping else b""


def _bad(error: msgspec.DecodeError, line: int) -> BadReport:
    what, field = what_and_field(error)
    return BadReport(what, line=line, field=field)
