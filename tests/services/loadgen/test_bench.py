"""`baton bench` as a process against a server that does what a test writes down: counts, figures, exit codes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from baton.core.metrics.facts import Failure, Phase
from tests.support.bench import bench, finished, start_bench
from tests.support.stub_server import (
    DONE,
    STREAM_HEAD,
    Asked,
    Close,
    Step,
    StubServer,
    Until,
    answering,
    chat_event,
    chunked,
    event,
    good_stream,
    streamed,
    usage_event,
    whole,
)

GOOD = streamed(good_stream())
LOAD = ("--num-requests", "20", "--concurrency", "4", "--workers", "2", "--no-metrics")
BUSY = {"error": {"message": "come again"}}
FAULTS: dict[str, tuple[Failure, list[Step]]] = {
    "refused": (Failure.REFUSED, [whole("503 Service Unavailable", BUSY)]),
    "error event": (Failure.ERROR_EVENT, streamed([chat_event("a"), event(BUSY), DONE])),
    "error body": (Failure.ERROR_EVENT, [whole("200 OK", BUSY)]),
    "no end marker": (Failure.NO_END, streamed(good_stream()[:-1])),
    "no finish reason": (Failure.NO_FINISH, streamed([chat_event("a"), usage_event(7, 1), DONE])),
    "empty": (Failure.EMPTY, [whole("200 OK", b"", "text/event-stream")]),
    "lost": (Failure.LOST, [STREAM_HEAD, chunked(chat_event("a")), Close()]),
}


def every_fifth(fault: list[Step]) -> Callable[[Asked], Iterable[Step]]:
    count = iter(range(1, 1 << 30))
    return answering(lambda asked: fault if next(count) % 5 == 0 else GOOD)


def prompts(server: StubServer) -> list[str]:
    return [asked.body["messages"][0]["content"] for asked in server.asked if asked.method == "POST"]


@pytest.mark.parametrize("fault", list(FAULTS))
async def test_LDG_01_failures_are_counted_by_class_stand_beside_the_figures_and_end_with_1(
    fault: str, tmp_path: Path
) -> None:
    failure, steps = FAULTS[fault]
    async with StubServer(every_fifth(steps)) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD)
        assert len(server.asked) == 21  # nothing is tried again
    counts = ran.report().summary.counts
    assert (ran.code, counts.planned, counts.succeeded, counts.failed) == (1, 20, 16, 4)
    assert counts.failures == {failure.value: 4}
    assert ran.report().summary.distributions["ttft_s"].count == 16
    assert "16 of 20 requests succeeded in" in ran.out
    assert f"4 failed (4 {failure.value})\n  {failure.value}: " in ran.out
    assert ran.err == ""


async def test_LDG_01_failures_up_to_the_threshold_end_with_0_and_without_a_success_nothing_does(
    tmp_path: Path,
) -> None:
    _, refused = FAULTS["refused"]
    async with StubServer(every_fifth(refused)) as server:
        assert (await bench(server.url, tmp_path / "a", *LOAD, "--max-failed", "0.2")).code == 0
        assert (await bench(server.url, tmp_path / "b", *LOAD, "--max-failed", "0.19")).code == 1
    async with StubServer(answering(lambda asked: refused)) as server:
        assert (await bench(server.url, tmp_path / "c", *LOAD, "--max-failed", "1")).code == 1


async def test_LDG_02_tokens_are_those_of_the_usage_and_one_token_has_no_latency_between(tmp_path: Path) -> None:
    one = streamed(good_stream(["x"], 1))
    async with StubServer(answering(lambda asked: one)) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD, "--output-tokens", "1")
    found = ran.report().summary.distributions
    assert [found[name].count for name in ("ttft_s", "itl_s", "tpot_s")] == [20, 0, 0]
    assert {(row.num_input_tokens, row.num_output_tokens, row.num_cached_tokens) for row in ran.facts()} == {(7, 1, 3)}
    assert ran.report().summary.prefix_hit_rate == 3 / 7
    assert ran.code == 0


async def test_LDG_02_a_role_event_is_no_first_token(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD)
    for row in ran.facts():
        assert [chunk.num_chars for chunk in row.chunks] == [3, 4]
        assert row.first_event_s is not None
        assert row.first_event_s <= row.chunks[0].time_s


async def test_LDG_04_three_hundred_in_flight_are_three_hundred_at_the_server(tmp_path: Path) -> None:
    all_there = asyncio.Event()
    async with StubServer(answering(lambda asked: [Until(all_there), *GOOD])) as server:
        flags = ("--num-requests", "300", "--concurrency", "300", "--input-tokens", "4", "--no-metrics")
        running = asyncio.ensure_future(bench(server.url, tmp_path / "out", *flags))
        async with server.opened:
            await server.opened.wait_for(lambda: server.num_open == 300)
        all_there.set()
        ran = await running
    assert ran.report().summary.concurrency.max == 300
    assert ran.report().summary.counts.succeeded == 300


async def test_LDG_04_two_runs_share_no_prompt_unless_they_are_to_be_repeatable(tmp_path: Path) -> None:
    said = []
    for number, flags in enumerate([(), (), ("--repeatable",), ("--repeatable",), ("--repeatable", "--seed", "7")]):
        async with StubServer(answering(lambda asked: GOOD)) as server:
            ran = await bench(server.url, tmp_path / str(number), *LOAD, "--input-tokens", "9", *flags)
            said.append(sorted(prompts(server)))
        assert bool(ran.report().run.salt) == (not flags)
    assert all(len(set(texts)) == 20 for texts in said)
    assert said[2] == said[3]
    for first, second in ((0, 1), (0, 2), (1, 2), (2, 4)):
        assert not set(said[first]) & set(said[second])


@pytest.mark.parametrize("to_group", [True, False])
async def test_LDG_04_a_ctrl_c_in_mid_run_keeps_what_was_measured_and_each_request_ends_once(
    to_group: bool, tmp_path: Path
) -> None:
    never = asyncio.Event()
    async with StubServer(answering(lambda asked: GOOD if len(server.asked) <= 9 else [Until(never)])) as server:
        flags = ("--url", server.url, "--out", str(tmp_path / "out"), *LOAD)
        process = await start_bench(*flags, has_own_group=to_group)
        async with server.opened:
            await server.opened.wait_for(lambda: len(server.asked) >= 13 and server.num_open == 4)
        os.killpg(process.pid, signal.SIGINT) if to_group else process.send_signal(signal.SIGINT)
        ran = await finished(process, tmp_path / "out")
    counts = ran.report().summary.counts
    assert (ran.code, ran.err) == (130, "")
    assert (counts.planned, counts.succeeded + counts.failed + counts.cancelled) == (20, 20)
    assert (counts.succeeded, counts.cancelled, counts.failures) == (8, 4, {"unsent": 8})
    assert [row.index for row in ran.facts()] == list(range(20))
    assert "warning: the run was interrupted" in ran.out
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!")


async def test_LDG_04_a_run_that_its_limit_of_time_ends_says_so_and_judges_what_it_cut_short(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with StubServer(answering(lambda asked: GOOD if len(server.asked) <= 9 else [Until(never)])) as server:
        flags = (*LOAD, "--max-time-s", "2", "--max-failed", "1", "--slo", "e2e=90s")
        ran = await bench(server.url, tmp_path / "out", *flags)
    counts, goodput = ran.report().summary.counts, ran.report().summary.goodput
    assert (ran.code, counts.cancelled) == (1, counts.cut_short)
    assert 1 <= counts.cut_short <= 4
    assert goodput is not None
    assert (goodput.num_judged, goodput.share) == (20, counts.succeeded / 20)
    assert f"; {counts.cut_short} cut short by the end of the run" in ran.out
    assert f"degraded: {counts.cut_short} of 20 requests were cut short by the end of the run" in ran.out
    assert "warning: the run's 2 s were over: what was open is cut short, the rest was not sent" in ran.out
    assert ran.report().warnings[-1].startswith("the run's 2 s were over")


async def test_a_sweep_has_a_folder_for_each_point_and_one_page(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path / "out", "--num-requests", "6", "--sweep", "concurrency:1,3")
        assert len(set(prompts(server))) == 12
    assert ran.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "concurrency=1",
        "concurrency=3",
        "report.html",
    ]
    for label in ("concurrency=1", "concurrency=3"):
        report = ran.report(label)
        assert (report.label, report.summary.counts.succeeded) == (label, 6)
        assert sorted(path.name for path in (tmp_path / "out" / label).iterdir()) == [
            "report.json",
            "requests.jsonl",
            "summary.csv",
        ]
    assert "requests/s due" not in ran.out


async def test_a_ctrl_c_in_a_sweep_ends_it_and_shows_the_points_before(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with StubServer(answering(lambda asked: GOOD if len(server.asked) <= 5 else [Until(never)])) as server:
        flags = ("--url", server.url, "--num-requests", "4", "--sweep", "concurrency:1,2,3", "--no-metrics")
        process = await start_bench(*flags, "--out", str(tmp_path / "out"))
        async with server.opened:
            await server.opened.wait_for(lambda: len(server.asked) == 7 and server.num_open == 2)
        process.send_signal(signal.SIGINT)
        ran = await finished(process, tmp_path / "out")
    assert ran.code == 130
    assert ran.report("concurrency=1").summary.counts.succeeded == 4
    assert ran.report("concurrency=2").summary.counts.cancelled == 2
    assert not (tmp_path / "out" / "concurrency=3").exists()
    assert (tmp_path / "out" / "report.html").stat().st_size


async def test_a_rate_is_shown_beside_what_was_sent(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path / "out", "--num-requests", "20", "--rate", "200", "--no-metrics")
    assert "requests/s due" in ran.out
    assert ran.code == 0


async def test_warm_up_is_sent_first_and_no_part_of_any_figure(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD, "--warm-up-requests", "5")
        assert len(server.asked) == 26
    assert ran.report().summary.counts.planned == 20
    assert [row.phase for row in ran.facts()] == [Phase.WARM_UP] * 5 + [Phase.MEASURED] * 20


async def test_a_full_disk_costs_files_a_line_each_and_the_exit_code_and_not_the_table(tmp_path: Path) -> None:
    for name in ("requests.jsonl", "report.json.new", "report.html.new"):
        (tmp_path / name).symlink_to("/dev/full")
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path, *LOAD)
    assert ran.code == 1
    assert [line.partition(f"{tmp_path}/")[2].partition(":")[0] for line in ran.err.splitlines()] == [
        "requests.jsonl",
        "report.json",
        "report.html",
    ]
    assert ran.err.count("No space left on device") == 3
    assert "20 of 20 requests succeeded" in ran.out
    assert "report: " not in ran.out


async def test_an_output_that_is_full_or_not_read_costs_no_file(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        with open("/dev/full", "wb") as full:
            process = await start_bench("--url", server.url, "--out", str(tmp_path / "full"), *LOAD, stdout=full)
            ran = await finished(process, tmp_path / "full")
        assert (ran.code, set(ran.err.splitlines())) == (1, {"baton bench: standard output: No space left on device"})
        reads, writes = os.pipe()
        os.close(reads)
        process = await start_bench("--url", server.url, "--out", str(tmp_path / "unread"), *LOAD, stdout=writes)
        os.close(writes)
        unread = await finished(process, tmp_path / "unread")
        assert (unread.code, unread.err) == (0, "")
    for folder in (ran.folder, unread.folder):
        assert sorted(path.name for path in folder.iterdir()) == [
            "report.html",
            "report.json",
            "requests.jsonl",
            "summary.csv",
        ]


async def test_a_ctrl_c_while_a_report_is_made_lets_it_be_finished_and_ends_a_sweep(tmp_path: Path) -> None:
    """The report goes into a pipe that holds less than all of it, so its writer waits there."""
    point, is_written = tmp_path / "concurrency=1", asyncio.Event()
    point.mkdir()
    os.mkfifo(point / "report.json.new")
    reads = os.open(point / "report.json.new", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reads, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
    async with StubServer(answering(lambda asked: GOOD)) as server:
        flags = ("--url", server.url, "--num-requests", "4", "--sweep", "concurrency:1,2", "--no-metrics")
        process = await start_bench("--out", str(tmp_path), *flags)
        asyncio.get_running_loop().add_reader(reads, is_written.set)
        await is_written.wait()
        process.send_signal(signal.SIGINT)
        asyncio.get_running_loop().add_reader(reads, os.read, reads, select.PIPE_BUF)  # what is still flushed
        ran = await finished(process, tmp_path)
        asyncio.get_running_loop().remove_reader(reads)
    os.close(reads)
    assert (ran.code, ran.err, len(server.asked)) == (130, "", 5)
    assert "4 of 4 requests succeeded" in ran.out
    assert (tmp_path / "report.html").stat().st_size
    assert not (tmp_path / "concurrency=2").exists()


async def test_a_ctrl_c_before_anything_was_sent_is_one_line(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with StubServer(lambda asked: [Until(never)]) as server:
        process = await start_bench("--url", server.url, "--out", str(tmp_path / "out"), *LOAD)
        async with server.opened:
            await server.opened.wait_for(lambda: server.num_open == 1)
        process.send_signal(signal.SIGINT)
        ran = await finished(process, tmp_path / "out")
    assert (ran.code, ran.out, ran.err) == (130, "", "baton bench: interrupted before anything was measured\n")


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        ((), "--num-requests, --duration-s: how much is wanted?"),
        ((*LOAD, "--model", "x"), "has no model 'x'; it has m"),
        ((*LOAD, "--content", "tokens"), "token ids can be asked for on completions, not in messages"),
        ((*LOAD, "--slo", "ttft=fast"), "--slo: 'ttft=fast': 'fast' is no time such as 2s or 25ms"),
        ((*LOAD, "--metrics", "h:1/metrics"), "--metrics, --no-metrics: one of the two"),
        ((*LOAD[:2], "--metrics", "h:1/metrics"), "--metrics: 'h:1/metrics' is no URL such as"),
        ((*LOAD, "--sweep", "x"), "--sweep 'x' is neither rate:A,B,… nor concurrency:A,B,…"),
        ((*LOAD, "--tokenizer", "/nowhere"), "/nowhere"),
        ((*LOAD, "--out", "/proc/nowhere"), "/proc/nowhere: No such file or directory"),
        (("--trace", "{folder}/broken.jsonl", "--concurrency", "1"), "broken.jsonl:2: "),
    ],
)
async def test_what_cannot_be_run_is_one_line_and_2_and_nothing_is_sent(
    flags: tuple[str, ...], cause: str, tmp_path: Path
) -> None:
    (tmp_path / "broken.jsonl").write_text('{"prompt": "a"}\n{"prompt":\n')
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path / "out", *(flag.replace("{folder}", str(tmp_path)) for flag in flags))
        assert prompts(server) == []
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("baton bench: ")
    assert ran.err.count("\n") == 1
    assert cause in ran.err
    assert not (tmp_path / "out").exists()


async def test_a_server_that_is_not_there_and_a_wrong_key_are_one_line_and_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        ran = await bench(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path / "out", *LOAD)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "cannot be reached" in ran.err

    def answer(asked: Asked) -> Iterable[Step]:
        is_known = asked.headers.get("authorization") == "Bearer right"
        return answering(lambda _: GOOD)(asked) if is_known else [whole("401 Unauthorized", BUSY)]

    async with StubServer(answer) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD, key="wrong")
        assert (ran.code, ran.err) == (2, f"baton bench: {server.url} refuses the API key: 401 come again\n")
        ran = await bench(server.url, tmp_path / "out", *LOAD, key="right")
    assert ran.code == 0
    assert all(b"right" not in path.read_bytes() for path in (tmp_path / "out").iterdir() if path.suffix != ".html")


async def test_other_tools_definitions_are_beside_ours_where_asked_for(tmp_path: Path) -> None:
    flags = ("--compat", "vllm", "--compat", "aiperf", "--compat", "guidellm", "--slo", "ttft=60s")
    async with StubServer(every_fifth(FAULTS["no end marker"][1])) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD, *flags)
    assert [(found.tool.value, found.completed) for found in ran.report().compat] == [
        ("vllm", 20),
        ("aiperf", 20),
        ("guidellm", 20),
    ]
    goodput = ran.report().summary.goodput
    assert goodput is not None
    assert (goodput.num_judged, goodput.num_good) == (20, 16)
    assert "by the definitions of guidellm: 20 completed, 0 failed" in ran.out


async def test_a_report_says_what_was_asked_but_no_header(tmp_path: Path) -> None:
    async with StubServer(answering(lambda asked: GOOD)) as server:
        ran = await bench(server.url, tmp_path / "out", *LOAD, "--header", "x-secret: s3cret", "--body", '{"n": 1}')
        assert server.asked[1].headers["x-secret"] == "s3cret"
        assert server.asked[1].body["n"] == 1
    run = ran.report().run
    assert run.settings == {"body": '{"n": 1}', "num_requests": 20, "concurrency": 4, "workers": 2}
    assert (run.target, run.model) == (server.url, "m")
    assert run.machine.keys() == {"processor", "cores", "memory_gib", "system"}
    assert "s3cret" not in json.dumps(run.settings) + (tmp_path / "out" / "report.json").read_text()


def test_a_ctrl_c_while_libraries_are_read_is_one_line() -> None:
    program = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from baton.services.cli.main import main
sys.exit(main(["bench", "--num-requests", "1", "--concurrency", "1"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    said = b"baton bench: interrupted before anything was measured\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", said)
