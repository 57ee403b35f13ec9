"""`baton bench` as a process: the folder that it writes to is its own, and what lies there stays."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.support.bench import bench, finished, start_bench
from tests.support.stub_server import StubServer, Until, answering, good_stream, streamed

GOOD = streamed(good_stream())
LOAD = ("--num-requests", "20", "--concurrency", "4", "--workers", "2", "--no-metrics")


async def test_a_folder_that_a_run_is_writing_to_is_not_taken_by_another(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with StubServer(answering(lambda asked: [Until(never)])) as server:
        process = await start_bench("--url", server.url, "--out", str(tmp_path / "out"), *LOAD)
        async with server.opened:
            await server.opened.wait_for(lambda: server.num_open >= 4)
        second = await bench(server.url, tmp_path / "out", *LOAD)
        process.send_signal(signal.SIGINT)
        first = await finished(process, tmp_path / "out")
    assert (second.code, second.out) == (2, "")
    assert second.err == f"baton bench: --out: another run is writing to {tmp_path / 'out'}\n"
    assert first.code == 130
    assert first.report().summary.counts.planned == 20


async def test_a_folder_that_holds_a_run_is_kept(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        await bench(server.url, tmp_path / "out", *LOAD)
        before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        ran = await bench(server.url, tmp_path / "out", *LOAD)
        assert len(server.asked) == 21
    assert (ran.code, ran.out) == (2, "")
    assert "already holds a run" in ran.err
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
