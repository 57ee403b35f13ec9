"""From a run's facts to its report and the files of its folder."""

from __future__ import annotations

import csv
import io
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from baton.core.metrics.compat import compat
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.intervals import within_run
from baton.core.metrics.over_time import over_time
from baton.core.metrics.report import Report, Run, encode_report
from baton.core.metrics.summary import summarize
from baton.core.metrics.table import COLUMNS, rows
from baton.services.loadgen.bench_settings import slo_of
from baton.services.loadgen.build import plan_fingerprint
from baton.services.loadgen.content import ContentKind, ContentSettings
from baton.services.loadgen.options import Options
from baton.services.loadgen.out_folder import refuse_files, write_all
from baton.services.loadgen.plan import Plan
from baton.services.loadgen.run import RunOutcome
from baton.services.loadgen.server_metrics import Sample
from baton.services.loadgen.target import Endpoint, Target

REPORT, TABLE, RECORDS, PAGE = "report.json", "summary.csv", "requests.jsonl", "report.html"
FILES = (REPORT, TABLE, RECORDS, PAGE)
#: not what was asked of the server: where it is, what may be secret, and what only this client does
NOT_TOLD = ("url", "header", "out", "sweep", "compat", "max_failed", "metrics", "no_metrics", "no_live")
PATHS = ("trace", "lengths_from", "tokenizer")

ServerSeries = dict[str, tuple[tuple[float, float], ...]]  #: figure → (time, value)


class Measured(NamedTuple):
    """One run that is over."""

    label: str
    plan: Plan
    content: ContentSettings
    facts: Sequence[RequestFacts]
    outcome: RunOutcome
    samples: Sequence[Sample]


def point_folder(folder: Path, label: str) -> Path:
    """Of one point of a sweep; the folder itself for a single run."""
    return folder / label if label else folder


def check_folder(folder: Path) -> None:
    """Raises BadLoad where files of a run would be lost."""
    refuse_files(folder, FILES, "run")


def make_report(measured: Measured, target: Target, options: Options) -> Report:
    """What the run was and what it gave. Raises BadLoad."""
    slo, facts, outcome = slo_of(options.run.slo), measured.facts, measured.outcome
    server_series = _server_series(measured.samples)
    settings = {name: value for part in options for name, value in _told(part).items()}
    return Report(
        label=measured.label,
        run=Run(
            target=target.url,
            model=target.model,
            seed=options.load.seed,
            salt=measured.content.salt,
            plan_fingerprint=plan_fingerprint(measured.plan),
            settings=settings | {"point": measured.label} if measured.label else settings,
            machine=describe_machine(),
            versions={"baton": version("baton-serve"), "python": platform.python_version()},
            began_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(outcome.started_at)),
        ),
        summary=summarize(facts, slo),
        series=over_time(facts),
        compat=tuple(compat(tool, facts, slo) for tool in options.run.compat),
        server_series=server_series,
        warnings=(*_cautions(measured, target), *_silences(measured.samples, server_series), *_troubles(outcome)),
        intervals=within_run(facts),
    )


def write_report(folder: Path, report: Report) -> None:
    """Each file whole or not at all. Raises OSError."""
    write_all(folder, [(TABLE, table_of(report)), (REPORT, encode_report(report))])


def table_of(report: Report) -> bytes:
    """The summary as CSV."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(COLUMNS)
    table.writerows(rows(report.summary, report.intervals))
    return text.getvalue().encode()


def describe_machine() -> dict[str, Any]:
    """Of the client: what two boards must share to be compared."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def _told(settings: msgspec.Struct) -> dict[str, Any]:
    """What differs from the defaults, and of files only the name."""
    defaults: dict[str, Any] = msgspec.to_builtins(type(settings)())
    found: dict[str, Any] = msgspec.to_builtins(settings)
    return {
        name: Path(value).name if name in PATHS else value
        for name, value in found.items()
        if name not in NOT_TOLD and value != defaults[name]
    }


def _cautions(measured: Measured, target: Target) -> list[str]:
    """Where the load may not be what was asked for."""
    cautions = []
    content = measured.content
    is_made_up = any(not request.text and not request.messages_json for request in measured.plan.requests)
    if is_made_up and content.kind == ContentKind.TEXT and not content.tokenizer:
        cautions.append("prompts without --tokenizer: each word is taken for one token")
    if measured.plan.num_left_out:
        cautions.append(f"{measured.plan.num_left_out} requests of the trace are left out: they need too many tokens")
    if not target.is_streamed:
        cautions.append("answers were asked for in one piece: TTFT, TPOT and ITL are not known")
    if target.endpoint is Endpoint.RESPONSES and target.ignore_eos:
        cautions.append("the responses API cannot be asked for exact lengths: answers may end before theirs")
    return cautions


def _silences(samples: Sequence[Sample], server_series: ServerSeries) -> list[str]:
    if not samples or server_series:
        return []
    return ["the server's metrics say neither its queue nor its KV use: --metrics names other addresses"]


def _server_series(samples: Sequence[Sample]) -> ServerSeries:
    series = {}
    for name in ("num_queued", "num_running", "kv_use"):
        points = [(sample.time_s, value) for sample in samples if (value := getattr(sample, name)) is not None]
        if points:
            series[name] = tuple(points)
    return series


def _troubles(outcome: RunOutcome) -> list[str]:
    troubles = [text for text in (outcome.broken, outcome.records_failure) if text]
    if ended := "the run was interrupted" if outcome.was_interrupted else outcome.out_of_time:
        troubles.insert(0, f"{ended}: what was open is cut short, the rest was not sent")
    if outcome.num_metrics_failures:
        text = f"the server's metrics could not be read {outcome.num_metrics_failures} times"
        troubles.append(f"{text}, first: {outcome.first_metrics_failure}")
    return troubles
