"""One run: starts the workers, goes through the phases, and sees to it that each request is told exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import uvloop

from baton.core.errors import ServingError
from baton.core.metrics.facts import Phase, RequestFacts
from baton.services.loadgen.plan import Plan, phases
from baton.services.loadgen.run_records import Records
from baton.services.loadgen.run_shares import num_workers_for, share
from baton.services.loadgen.run_worker import WorkerProcess
from baton.services.loadgen.server_metrics import MetricsSampler, Sample
from baton.services.loadgen.target import Target
from baton.services.loadgen.worker_messages import Begin, unsent_facts

START_LEAD_S = 0.1  #: between saying when a phase starts and its start
STOP_GRACE_S = 5.0  #: what the workers have to cancel and tell what is open

FactsTold = Callable[[Sequence[RequestFacts]], None]


class RunFailed(ServingError):
    """The run could not begin."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is run."""

    maker: str  #: MODULE:NAME of a function that gives a BodyOf; called in each worker
    maker_settings: dict[str, Any] = {}
    num_workers: int = 0  #: 0: by the load and the cores
    max_measured_s: float = 0.0  #: the measured phase is stopped after so long; 0: it goes to its end
    metrics_urls: tuple[str, ...] = ()  #: expositions of Prometheus to be sampled
    metrics_every_s: float = 1.0


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run beside its facts. It went as planned if all that are no numbers are empty or False."""

    was_interrupted: bool
    broken: str  #: why a worker could not go on; the run was stopped then
    records_failure: str  #: why the records are incomplete
    started_at: float  #: seconds since 1970: the zero of all times
    out_of_time: str = ""  #: that its limit of time ended it
    num_metrics_failures: int = 0
    first_metrics_failure: str = ""


class Run:
    """Use it once: `run` returns when every request has been told. `interrupt` may come at any time, from its loop."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        options: RunOptions,
        told: FactsTold,
        records: Records | None = None,
        sampled: Callable[[Sample], None] = lambda sample: None,
    ) -> None:
        """Raises PlanInvalid and TargetInvalid."""
        self._plan = plan
        self._target = target
        self._options = options
        self._told_to = told
        self._records = records
        self._origin_s = time.monotonic()
        self._started_at = time.time()
        self._stopping = asyncio.Event()  #: interrupted, or a worker broke
        self._was_interrupted = False
        self._out_of_time = ""
        self._gives_up = False  #: interrupted twice: no worker is waited for
        self._sampler = MetricsSampler(options.metrics_urls, target, options.metrics_every_s, self.clock, sampled)
        self._workers = self._make_workers()

    def clock(self) -> float:
        """Seconds since the run began: what all times of its facts are."""
        return time.monotonic() - self._origin_s

    def interrupt(self) -> None:
        """Stop: what is open is cancelled and told, the rest is told as unsent. The second time, at once."""
        self._gives_up = self._was_interrupted
        if self._gives_up:
            for worker in self._workers:
                worker.kill()
        self._was_interrupted = True
        self._stopping.set()

    async def run(self) -> RunOutcome:
        """Raises RunFailed if it could not begin; nothing was sent then."""
        sampling = asyncio.create_task(self._sampler.run()) if self._options.metrics_urls else None
        try:
            await self._start()
            detail = await self._go_through()
        except BaseException:
            for worker in self._workers:
                worker.kill()
            raise
        finally:
            if sampling is not None:
                sampling.cancel()
                with suppress(asyncio.CancelledError):
                    await sampling
        await self._end(detail)
        return self._outcome()

    def _make_workers(self) -> list[WorkerProcess]:
        plan, options = self._plan, self._options
        num_workers = options.num_workers or num_workers_for(plan, len(os.sched_getaffinity(0)))
        begins = [
            Begin(
                target=self._target,
                requests=tuple(requests),
                worker=number,
                num_workers=num_workers,
                concurrency=plan.concurrency,
                ramp_s=plan.ramp_s,
                origin_s=self._origin_s,
                maker=options.maker,
                maker_settings=options.maker_settings,
            )
            for number, requests in enumerate(share(plan.requests, num_workers))
        ]
        return [WorkerProcess(begin, self._told, self._stopping.set) for begin in begins]

    async def _start(self) -> None:
        try:
            await asyncio.gather(*(worker.start() for worker in self._workers))
        except OSError as error:
            raise RunFailed(f"no worker process could be started: {error}") from error
        await self._all_or_stop(worker.prepared() for worker in self._workers)
        if broken := self._broken():
            for worker in self._workers:
                worker.kill()
                await worker.ended(STOP_GRACE_S)
            raise RunFailed(broken)

    async def _go_through(self) -> str:
        """All phases; why the run was stopped, if it was."""
        for phase in phases(self._plan.requests):
            if self._stopping.is_set():
                break
            start_s = self.clock() + START_LEAD_S
            for worker in self._workers:
                worker.start_phase(phase, start_s)
            limit_s = self._options.max_measured_s if phase is Phase.MEASURED else 0.0
            over = self._all_or_stop(worker.phase_over(phase) for worker in self._workers)
            try:
                await asyncio.wait_for(over, START_LEAD_S + limit_s if limit_s else None)
            except TimeoutError:
                self._out_of_time = f"the run's {limit_s:g} s were over"
                return self._out_of_time
        if not self._stopping.is_set():
            return ""
        return self._broken() or "the run was interrupted"

    async def _end(self, detail: str) -> None:
        for worker in self._workers:
            worker.stop(detail)
            if self._gives_up:  # it came before there was a process
                worker.kill()
        await asyncio.gather(*(worker.ended(STOP_GRACE_S) for worker in self._workers))
        now = self.clock()
        for worker in self._workers:
            cause = f"{worker.broken or 'its worker told nothing of it'}; whether it was sent is not known"
            self._told([unsent_facts(request, worker.number, now, cause, now) for request in worker.missing])
        if self._records is not None:
            self._records.close()

    def _told(self, facts: Sequence[RequestFacts]) -> None:
        if facts and self._records is not None:
            self._records.add(facts)
        if facts:
            self._told_to(facts)

    def _broken(self) -> str:
        return next((worker.broken for worker in self._workers if worker.broken), "")

    async def _all_or_stop(self, waits: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Until all of these are over, or the run is to stop."""
        everything = asyncio.ensure_future(asyncio.gather(*waits))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((everything, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (everything, stop):
                waiting.cancel()
            await asyncio.gather(everything, stop, return_exceptions=True)  # so that nobody tells of them

    def _outcome(self) -> RunOutcome:
        return RunOutcome(
            was_interrupted=self._was_interrupted,
            broken=self._broken(),
            records_failure=self._records.failure if self._records is not None else "",
            out_of_time=self._out_of_time,
            started_at=self._started_at,
            num_metrics_failures=self._sampler.num_failures,
            first_metrics_failure=self._sampler.first_failure,
        )


def run_to_end(make: Callable[[], Run]) -> RunOutcome:
    """Run on a loop of its own, where Ctrl-C and SIGTERM interrupt the run. Raises RunFailed, PlanInvalid and
    TargetInvalid."""

    async def interruptible() -> RunOutcome:
        run = make()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, run.interrupt)
        try:
            return await run.run()
        finally:  # the loop would leave them without effect
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    return uvloop.run(interruptible())
