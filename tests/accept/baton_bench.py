"""`baton bench`: what it reports is what the server did, and its own cost does not get in the way."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.report import Report, decode_facts, decode_report
from baton.services.loadgen.results import RECORDS, REPORT
from bench.machine import family, process_cpu_s
from tests.accept.aiperf import served
from tests.accept.commands import BATON, ROOT, run
from tests.accept.deployment import Deployment
from tests.accept.row import Options, Row, Verdict, judged

NUM_REQUESTS, NUM_TOO_LONG = 200, 20
NUM_OUTPUT_TOKENS = 32
RATE = 20.0  #: requests per second, of which the log tells each
CHAT = "/v1/chat/completions"
LIMIT_S = 300.0

NUM_STREAMS, CHUNKS_PER_S, STREAM_S = 1000, 10, 10.0
MAX_LAG_S, MAX_CORES = 0.020, 1.5
START_S = 4.0  #: to start the client, or more


def measure(options: Options) -> Row:
    asked = (
        f"baton bench, {NUM_REQUESTS} chats of which the server refuses {NUM_TOO_LONG}: requests, failures and tokens "
        f"are exactly those of the server's log; {NUM_STREAMS} streams in flight at {CHUNKS_PER_S} chunks/s each: "
        f"schedule lag p99 < {MAX_LAG_S * 1e3:.0f} ms at < {MAX_CORES} cores"
    )
    exact, many = measure_counts(), measure_cost(10.0 if options.quick else 30.0)
    both = (exact, many)
    is_met = all(row.verdict is Verdict.MET for row in both)
    return judged(asked, "; ".join(row.measured for row in both), is_met, counts=exact.numbers, cost=many.numbers)


def measure_counts() -> Row:
    with TemporaryDirectory(prefix="accept-") as name, Deployment("--device", "fake", model="tiny") as up:
        folder = Path(name)
        (folder / "prompts.jsonl").write_bytes(b"".join(prompt(index) for index in range(NUM_REQUESTS)))
        flags = ("--trace", str(folder / "prompts.jsonl"), "--rate", f"{RATE:g}", "--max-failed", "0.1")
        done = run([*BATON, "bench", "--url", up.url, "--out", str(folder / "out"), *flags], LIMIT_S)
        up.wait_until_quiescent()
        log = served(up, CHAT)
        report, facts = read(folder / "out")
    ours = sorted((row.status, row.num_input_tokens, row.num_output_tokens) for row in facts if row.status == 200)
    counts = report.summary.counts
    is_met = (done.code, counts.failures) == (0, {"http_error": NUM_TOO_LONG})
    is_met = is_met and counts.succeeded == len(ours) == NUM_REQUESTS - NUM_TOO_LONG
    is_met = is_met and ours == sorted(row for row in log if row[0] == 200)
    sums = [sum(row[index] for row in ours) for index in (1, 2)]
    theirs = [sum(row[index] for row in log if row[0] == 200) for index in (1, 2)]
    text = (
        f"{counts.succeeded} good, failed {counts.failures}; tokens in and out: bench {sums}, log {theirs}"
        f"{'' if done.code == 0 else f'; ended with {done.code}: {done.last_line}'}"
    )
    return judged("", text, is_met, ours=sums, theirs=theirs)


def prompt(index: int) -> bytes:
    """A line of the trace; some ask for more tokens than any context has."""
    is_too_long = index % (NUM_REQUESTS // NUM_TOO_LONG) == 0
    fields = {"prompt": f"question {index}", "max_tokens": 1 << 20 if is_too_long else NUM_OUTPUT_TOKENS}
    return msgspec.json.encode(fields) + b"\n"


def measure_cost(full_s: float) -> Row:
    """`full_s`: so long all streams are there."""
    rate = NUM_STREAMS / STREAM_S
    with TemporaryDirectory(prefix="accept-") as name, paced_server() as url:
        out = Path(name) / "out"
        load = ("--rate", f"{rate:g}", "--arrivals", "constant", "--duration-s", f"{STREAM_S + START_S + full_s:g}")
        flags = (*load, "--input-tokens", "16", "--no-metrics", "--out", str(out))
        command = [*BATON, "bench", "--url", url, *flags]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as client:
            time.sleep(START_S + STREAM_S)
            cores = cores_of(client.pid, full_s)
            code = client.wait(LIMIT_S)
        summary = read(out)[0].summary
    lag_s = summary.distributions["schedule_lag_s"].p99 or float("inf")
    most = summary.concurrency.max
    is_met = code == 0 and most >= 0.95 * NUM_STREAMS and lag_s < MAX_LAG_S and cores < MAX_CORES
    text = f"{most} streams in flight: lag p99 {lag_s * 1e3:.1f} ms, {cores:.2f} cores, {summary.counts.failed} failed"
    return judged("", text, is_met, lag_p99_s=lag_s, cores=cores, streams=most)


@contextmanager
def paced_server() -> Iterator[str]:
    """A server of streams at one pace; its address."""
    chunks = str(int(CHUNKS_PER_S * STREAM_S))
    command = [sys.executable, "-m", "tests.support.paced_server", "0", "--chunks", chunks]
    command += ["--every-ms", f"{1000 / CHUNKS_PER_S:g}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def cores_of(pid: int, duration_s: float) -> float:
    """That a process and its children use, over so long from now."""
    pids = family(pid)
    before_s, started_at = sum(map(process_cpu_s, pids)), time.monotonic()
    time.sleep(duration_s)
    return (sum(map(process_cpu_s, pids)) - before_s) / (time.monotonic() - started_at)


def read(folder: Path) -> tuple[Report, list[RequestFacts]]:
    facts = list(decode_facts((folder / RECORDS).read_bytes().splitlines()))
    return decode_report((folder / REPORT).read_bytes()), facts
