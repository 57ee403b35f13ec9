"""One command line of `baton bench`: its plans, its runs, and what is written of them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import msgspec
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from baton.core.errors import ServingError
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.report import Report
from baton.services.loadgen.bench_settings import metrics_urls, slo_of_target, target_of
from baton.services.loadgen.bodies import Bodies, BodySettings
from baton.services.loadgen.build import build_plan
from baton.services.loadgen.console import show_report
from baton.services.loadgen.content import ContentSettings, new_salt
from baton.services.loadgen.html import render
from baton.services.loadgen.interrupts import EXIT_INTERRUPTED, ends_at_interrupt
from baton.services.loadgen.live import LiveView
from baton.services.loadgen.load_settings import content_settings
from baton.services.loadgen.options import Options
from baton.services.loadgen.out_folder import taken, write_whole
from baton.services.loadgen.plan import Plan
from baton.services.loadgen.refusals import is_written
from baton.services.loadgen.results import (
    FILES,
    PAGE,
    RECORDS,
    Measured,
    check_folder,
    make_report,
    point_folder,
    write_report,
)
from baton.services.loadgen.run import Run, RunOptions, run_to_end
from baton.services.loadgen.run_preflight import check_target
from baton.services.loadgen.run_records import Records
from baton.services.loadgen.server_metrics import Sample
from baton.services.loadgen.sweep import parse_sweep, sweep_plans

EXIT_FAILURES = 1
MAKER = "baton.services.loadgen.bodies:make_bodies"


class Bench:
    """One command line. Raises ServingError and OSError while nothing has been measured."""

    def __init__(self, options: Options, console: Console, errors: Console) -> None:
        self._options = options
        self._console = console
        self._errors = errors
        self._target = target_of(options.target)
        self._salt = "" if options.load.repeatable else new_salt()
        self._reports: list[Report] = []
        self._facts: list[Sequence[RequestFacts]] = []
        self._was_interrupted = False  #: while a report was made
        self._code = 0

    def run(self) -> int:
        """The exit code. A Ctrl-C ends a run in order, and lets a report be finished; elsewhere it ends the command."""
        try:
            return self._run_all()
        except KeyboardInterrupt:
            self._say("interrupted" if self._reports else "interrupted before anything was measured")
            return EXIT_INTERRUPTED

    def _run_all(self) -> int:
        load, run = self._options.load, self._options.run
        slo_of_target(run.slo, self._target)
        metrics_urls(run, self._target)
        plans = sweep_plans(load, parse_sweep(run.sweep)) if run.sweep else [("", build_plan(load))]
        for _, plan in plans:
            self._try_bodies(plan)
        folder = Path(run.out or time.strftime("bench-%Y%m%d-%H%M%S"))
        folders = [point_folder(folder, label) for label, _ in plans]
        for each in {folder, *folders}:
            check_folder(each)
        with ends_at_interrupt():
            self._target = asyncio.run(check_target(self._target))
        with taken(str(folder), FILES, "run"):
            return self._run_points(plans, folder, folders)

    def _run_points(self, plans: Sequence[tuple[str, Plan]], folder: Path, folders: Sequence[Path]) -> int:
        for (label, plan), own in zip(plans, folders, strict=True):
            if not self._try_one(label, plan, own) or self._code == EXIT_INTERRUPTED:
                break
        page = render(self._reports, self._facts).encode()
        if self._write(lambda: write_whole(folder / PAGE, page)):
            text = f"report: {escape(str(folder / PAGE))}"
            self._write(lambda: self._console.print(text, highlight=False, soft_wrap=True))
        return self._code

    def _try_bodies(self, plan: Plan) -> None:
        """What cannot be said on the endpoint is told before the server is asked. Raises BadLoad."""
        bodies = Bodies(self._body_settings(content_settings(self._options.load, plan, self._salt)))
        for request in {bool(request.messages_json): request for request in plan.requests}.values():
            bodies(request, ())

    def _try_one(self, label: str, plan: Plan, folder: Path) -> bool:
        """Whether it could be run. The first of a sweep that cannot be ends it, and what was measured stays."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._run_one(label, plan, folder)
        except (ServingError, OSError) as error:
            if not self._reports:
                raise
            self._say(f"{label}: {error}")
            self._code = EXIT_FAILURES
            return False
        return True

    def _run_one(self, label: str, plan: Plan, folder: Path) -> None:
        measured = self._measure(label, plan, Records(folder / RECORDS))
        signal.signal(signal.SIGINT, self._interrupt)
        report = make_report(measured, self._target, self._options)
        self._reports.append(report)
        self._facts.append(measured.facts)
        self._judge(report, measured)
        self._write(lambda: write_report(folder, report))
        self._write(lambda: show_report(report, measured.facts, self._console))

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """A Ctrl-C while a report is made waits for it, so that one too many loses nothing; a second one does not."""
        if self._was_interrupted:
            raise KeyboardInterrupt
        self._was_interrupted = True
        self._code = EXIT_INTERRUPTED

    def _measure(self, label: str, plan: Plan, records: Records) -> Measured:
        content = content_settings(self._options.load, plan, self._salt)
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
        asked = self._options.run
        return RunOptions(
            maker=MAKER,
            maker_settings=msgspec.to_builtins(self._body_settings(content)),
            num_workers=asked.workers,
            max_measured_s=asked.max_time_s,
            metrics_urls=metrics_urls(asked, self._target),
        )

    def _body_settings(self, content: ContentSettings) -> BodySettings:
        target = self._target
        return BodySettings(
            model=target.model,
            endpoint=target.endpoint,
            content=content,
            is_streamed=target.is_streamed,
            ignore_eos=target.ignore_eos,
            asks_counts=self._options.target.count_tokens,
            extra_fields=target.extra_fields,
        )

    def _judge(self, report: Report, measured: Measured) -> None:
        counts, outcome = report.summary.counts, measured.outcome
        judged = counts.succeeded + counts.failed
        has_failed = bool(judged) and counts.failed / judged > self._options.run.max_failed
        if outcome.was_interrupted or self._was_interrupted:
            self._code = EXIT_INTERRUPTED
        elif has_failed or outcome.broken or outcome.records_failure or not counts.is_whole or not counts.succeeded:
            self._code = EXIT_FAILURES
        if outcome.records_failure:
            self._say(outcome.records_failure)

    def _write(self, write: Callable[[], None]) -> bool:
        """Whether it could be: each of the files and standard output does without the others."""
        if is_written(write, self._say):
            return True
        self._code = self._code or EXIT_FAILURES
        return False

    def _say(self, text: str) -> None:
        self._errors.print(f"baton bench: {text}", markup=False, highlight=False, soft_wrap=True)
