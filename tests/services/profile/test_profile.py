"""`baton profile`: from the steps of an executor to a file that `baton sim` reads."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from aiohttp import web
from msgspec.json import encode

from baton.core.executor.events import Launch, PieceLanded, StepDone
from baton.core.executor.steps import StepItem, StepPlan, StepResult
from baton.core.sim.memory import sim_layout
from baton.core.sim.step_time.observed import ObservedSteps
from baton.core.sim.step_time.profile import load_profile
from baton.services.executor.step_log import StepLog
from baton.services.loadgen.refusals import EXIT_REFUSED
from baton.services.profile.__main__ import EXIT_FAILED, main
from baton.services.sim.run import main as simulate

STEP_S, TOKEN_S = 0.003, 1e-4  #: of a fake device, which counts each token alike


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def logged_steps(count: int, num_steps: int = 8192) -> StepLog:
    """Steps of a fake device as its executor would note them, on a clock that the test moves."""
    clock, rng = Clock(), Random(1)
    log = StepLog(clock, num_steps)
    for step_id in range(1, count + 1):
        lengths = [rng.randrange(10, 500) for _ in range(rng.randrange(0, 20))]
        chunk = rng.randrange(2, 300)
        prompts = () if lengths and step_id % 2 else (StepItem(99, 0, chunk, 1, b""),)
        decodes = tuple(range(len(lengths)))
        plan = StepPlan(step_id, (), (), (), prompts, decodes, num_context=sum(lengths))
        log.launched(Launch(plan))
        duration_s = STEP_S + plan.num_tokens * TOKEN_S
        clock.now += duration_s
        log.said(PieceLanded(step_id))
        log.said(StepDone(StepResult(step_id, (), duration_s, len(decodes))))
    return log


def page(log: StepLog, after: int = 0) -> ObservedSteps:
    return log.page("unified", "fake", sim_layout(16, 2), 100, after)


def test_the_log_tells_the_last_steps_in_figures_and_no_more_than_it_may() -> None:
    log = logged_steps(50, num_steps=20)
    steps = page(log).steps
    assert [step.step_id for step in steps] == list(range(31, 51))
    assert [step.step_id for step in page(log, after=47).steps] == [48, 49, 50]
    assert all(step.duration_s == pytest.approx(STEP_S + (step.tokens + step.decodes) * TOKEN_S) for step in steps)
    assert page(log).kv_tokens == 1600


@contextmanager
def served(log: StepLog) -> Iterator[str]:
    """An executor's admin page, on a loop of its own thread."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    address: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=encode(page(log, int(request.query["after"]))), content_type="application/json")

    async def serve() -> None:
        app = web.Application()
        app.add_routes([web.get("/steps", answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        started.set()
        await stop.wait()
        await runner.cleanup()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_a_profile_of_a_fake_device_has_its_numbers_and_runs_in_the_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fake.json"
    with served(logged_steps(600)) as address:
        assert main(["--executor", f"{address}/metrics", "--out", str(path)]) == 0
    told = capsys.readouterr().out
    assert "600 steps" in told
    assert "decode" in told
    assert "p95 of |error|" in told
    profile = load_profile(str(path))
    assert profile.name == "fake"
    assert "baton profile on unified (fake)" in profile.source
    assert all(error.mape < 1e-3 for error in profile.fit_errors.values())
    assert profile.steps.mixed is not None
    constant = next(term.s for term in profile.steps.mixed.pieces[0].terms if term.of == "one")
    assert constant == pytest.approx(STEP_S, rel=0.01)
    load = "rate=5 num_requests=10 input_tokens=100 output_tokens=5"
    assert simulate(["--topology", "1U", "--profile", str(path), "--synthetic", load]) == 0


def test_what_cannot_be_read_or_fitted_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--executor", "http://127.0.0.1:1", "--out", str(tmp_path / "x")]) == EXIT_REFUSED
    with served(logged_steps(3)) as address:
        assert main(["--executor", address, "--out", str(tmp_path / "x")]) == EXIT_REFUSED
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0] == "baton profile: http://127.0.0.1:1/steps?after=0: Connection refused"
    assert "3 steps" in lines[1]
    assert not (tmp_path / "x").exists()


def test_a_full_disk_costs_the_profile_and_the_exit_code_but_not_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.new").symlink_to("/dev/full")
    with served(logged_steps(600)) as address:
        assert main(["--executor", address, "--out", str(tmp_path / "x")]) == EXIT_FAILED
    told = capsys.readouterr()
    assert told.err == f"baton profile: {tmp_path}/x: No space left on device\n"
    assert "600 steps" in told.out
    assert "written" not in told.out
    assert list(tmp_path.iterdir()) == []


def test_a_profile_that_could_not_be_written_is_not_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out, says in ((tmp_path, "Is a directory"), (tmp_path / "no" / "x", "there is no such folder")):
        assert main(["--executor", "http://127.0.0.1:1", "--out", str(out)]) == EXIT_REFUSED
        assert says in capsys.readouterr().err
