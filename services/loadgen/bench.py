"""One command line of `baton bench`: its plans, its runs, and what is written of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live

from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.report import Report
from baton.services.loadgen.bench_settings import target_of
from baton.services.loadgen.bodies import BodySettings
from baton.services.loadgen.build import build_plan
from baton.services.loadgen.console import show_report
from baton.services.loadgen.content import Content, ContentSettings, new_salt
from baton.services.loadgen.html import render
from baton.services.loadgen.live import LiveView
from baton.services.loadgen.load_settings import content_settings
from baton.services.loadgen.options import Options
from baton.services.loadgen.plan import Plan
from baton.services.loadgen.results import PAGE, RECORDS, Measured, make_report, write_report, write_whole
from baton.services.loadgen.run import Run, RunOptions, run_to_end
from baton.services.loadgen.run_preflight import check_target
from baton.services.loadgen.run_records import Records
from baton.services.loadgen.server_metrics import Sample
from baton.services.loadgen.sweep import parse_sweep, sweep_plans
from baton.services.loadgen.target import Target, address_of

EXIT_FAILURES = 1
EXIT_INTERRUPTED = 130
MAKER = "baton.services.loadgen.bodies:make_bodies"
ASSUMED_COUNTS = "text without --tokenizer: each word is taken for one token"


class Bench:
    """One command line. Raises ServingError and OSError while nothing has been sent."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._target = Target(url="", model="")
        self._salt = "" if options.load.repeatable else new_salt()
        self._reports: list[Report] = []
        self._facts: list[Sequence[RequestFacts]] = []
        self._code = 0

    def run(self) -> int:
        """The exit code."""
        load, run = self._options.load, self._options.run
        plans = sweep_plans(load, parse_sweep(run.sweep)) if run.sweep else [("", build_plan(load))]
        self._target = asyncio.run(check_target(target_of(self._options.target)))
        folder = Path(run.out or time.strftime("bench-%Y%m%d-%H%M%S"))
        for label, plan in plans:
            own = folder / label.replace(":", "-").replace(" ", "-") if label else folder
            own.mkdir(parents=True, exist_ok=True)
            self._run_one(label, plan, own)
            if self._code == EXIT_INTERRUPTED:
                break
        self._write(lambda: write_whole(folder / PAGE, render(self._reports, self._facts).encode()))
        self._console.print(f"report: {folder / PAGE}", highlight=False)
        return self._code

    def _run_one(self, label: str, plan: Plan, folder: Path) -> None:
        options = self._options
        content = content_settings(options.load, plan, self._salt)
        warnings = [ASSUMED_COUNTS] if Content(content).is_count_assumed else []
        measured = self._measure(label, plan, content, Records(folder / RECORDS))
        report = make_report(measured, self._target, options.target, options.load, options.run, warnings)
        show_report(report, self._console)
        self._write(lambda: write_report(folder, report))
        self._reports.append(report)
        self._facts.append(measured.facts)
        outcome = measured.outcome
        self._judge(report, outcome.was_interrupted, bool(outcome.broken or outcome.records_failure))

    def _measure(self, label: str, plan: Plan, content: ContentSettings, records: Records) -> Measured:
        facts: list[RequestFacts] = []
        samples: list[Sample] = []
        begun_at = time.monotonic()
        view = LiveView(label, len(plan.requests), lambda: time.monotonic() - begun_at)

        def told(batch: Sequence[RequestFacts]) -> None:
            facts.extend(batch)
            view.told(batch)

        def sampled(sample: Sample) -> None:
            samples.append(sample)
            view.sampled(sample)

        options = self._run_options(content)
        is_live = self._console.is_terminal and not self._options.run.no_live
        with Live(view, console=self._console, transient=True) if is_live else nullcontext():
            outcome = run_to_end(lambda: Run(plan, self._target, options, told, records, sampled))
        return Measured(label, plan, content, facts, outcome, samples)

    def _run_options(self, content: ContentSettings) -> RunOptions:
        target, asked = self._target, self._options.run
        body = BodySettings(
            model=target.model,
            endpoint=target.endpoint,
            content=content,
            is_streamed=target.is_streamed,
            ignore_eos=target.ignore_eos,
            asks_counts=self._options.target.count_tokens,
            extra_fields=target.extra_fields,
        )
        fields: dict[str, Any] = msgspec.to_builtins(body)
        urls = asked.metrics or (f"{address_of(target.url).origin}/metrics",)
        return RunOptions(
            maker=MAKER,
            maker_settings=fields,
            num_workers=asked.workers,
            max_measured_s=asked.max_time_s,
            metrics_urls=() if asked.no_metrics else urls,
        )

    def _judge(self, report: Report, was_interrupted: bool, is_incomplete: bool) -> None:
        counts = report.summary.counts
        judged = counts.succeeded + counts.failed
        has_failed = bool(judged) and counts.failed / judged > self._options.run.max_failed
        if was_interrupted:
            self._code = EXIT_INTERRUPTED
        elif has_failed or is_incomplete or not counts.succeeded:
            self._code = self._code or EXIT_FAILURES

    def _write(self, write: Callable[[], None]) -> None:
        """What was measured has been shown already; a file that cannot be written is one line more."""
        try:
            write()
        except OSError as error:
            self._console.print(f"[bold red]{error.filename}: {error.strerror}[/]", highlight=False)
            self._code = self._code or EXIT_FAILURES
