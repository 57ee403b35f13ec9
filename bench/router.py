"""What does the router cost for each request and each streamed chunk?

    python bench/router.py [--json FILE] [--model NAME|FOLDER] [--requests 512] [--streams 1,64,512]
                           [--dynamo-python PYTHON]

Real processes: a router, a scheduler and an executor whose device answers at once. 512 prompt tokens, 64 output tokens,
at 1, 64 and 512 concurrent streams; prompts are chats of text, which the router tokenizes, or token ids. CPU is the
router process's own (user and system). The client is a process of its own, shares the machine's cores and is not
counted. With an environment that holds Dynamo (see bench/peers.md), its front end before its mocker is asked the same
by the same client in turns with ours, everything in a network of its own, as it listens on all addresses. Each row is
the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.services.model.fetch import fetch
from bench.peers.dynamo import START_LIMIT_S, Dynamo, System, enter_own_network, process_cpu_s

NUM_PROMPT_TOKENS, NUM_OUTPUT_TOKENS = 512, 64
NUM_ROUNDS = 3
KINDS = ("chat text", "token ids")
CONFIG = """
[device]
checks_memory = false
num_blocks = 40000
block_size = 64
[executor]
num_slots = 600
token_budget = 65536
[http]
max_open_requests = 2048
"""
END_OF_BODY = b"0\r\n\r\n"


class Row(NamedTuple):
    system: str
    prompts: str
    streams: int
    requests_per_s: float
    chunks_per_s: float
    cpu_ms_per_request: float
    cpu_us_per_chunk: float
    ttft_p50_ms: float
    e2e_p50_ms: float


class Baton:
    """`baton up` with a fake device."""

    name = "baton"

    def __init__(self, folder: Path, model: str) -> None:
        config = folder / "bench.toml"
        config.write_text(CONFIG, encoding="utf-8")
        command = [sys.executable, "-m", "baton.services.cli.main", "up", "--device", "fake", "--unified", "1"]
        command += ["--port", "0", "--model", model, "--config", str(config)]
        self._log = folder / "up.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.port = self._wait()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models") as answer:
            self.model = json.load(answer)["data"][0]["id"]
        self._router = self._child("baton.services.router")

    def cpu_s(self) -> float:
        """The router's so far."""
        return process_cpu_s(self._router)

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def _wait(self) -> int:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            text = self._log.read_text(errors="replace")
            if "ready: " in text:
                return int(text.split("ready: http://127.0.0.1:", 1)[1].split("/", 1)[0])
            time.sleep(0.05)
        raise SystemExit(f"the deployment did not become ready:\n{self._log.read_text(errors='replace')}")

    def _child(self, module: str) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return next(int(pid) for pid in children if module in Path(f"/proc/{pid}/cmdline").read_text())


def bodies(kind: str, model: str, count: int) -> list[bytes]:
    """Requests as bytes, each with a prompt of its own."""
    rng = random.Random(1)
    requests = []
    for _ in range(count):
        fields = {"model": model, "max_tokens": NUM_OUTPUT_TOKENS, "ignore_eos": True, "stream": True}
        if kind == "token ids":
            path = "/v1/completions"
            fields["prompt"] = [rng.randrange(256) for _ in range(NUM_PROMPT_TOKENS)]
        else:
            path = "/v1/chat/completions"
            words = [rng.choice(WORDS) for _ in range(NUM_PROMPT_TOKENS - 20)]
            fields["messages"] = [{"role": "user", "content": " ".join(words)}]
        body = json.dumps(fields).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        requests.append(head.encode() + b"\r\n\r\n" + body)
    return requests


#: one token each to most tokenizers
WORDS = [
    "the", "of", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with", "his",
    "they", "at", "be", "this", "have", "from", "or", "one", "had", "by",
]


class Streams:
    """A client process's side: so many connections, each sends its next request when the last one is answered."""

    def __init__(self, port: int, requests: list[bytes]) -> None:
        self._port = port
        self._requests = iter(requests)
        self.ttft_s: list[float] = []
        self.e2e_s: list[float] = []
        self.num_chunks = 0

    async def connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for request in self._requests:
            started_at = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError((head + await reader.read(2000)).decode(errors="replace"))
            tail, is_first = b"", True
            while not tail.endswith(END_OF_BODY):
                data = await reader.read(1 << 16)
                if not data:
                    raise RuntimeError("the server closed in the middle of an answer")
                if is_first:
                    self.ttft_s.append(time.perf_counter() - started_at)
                    is_first = False
                self.num_chunks += data.count(b"data: ")
                tail = (tail + data)[-len(END_OF_BODY) :]
            self.e2e_s.append(time.perf_counter() - started_at)
        writer.close()


def client(port: int, kind: str, model: str, streams: int, count: int) -> None:
    """Runs in a process of its own; prints what it saw."""

    async def run() -> None:
        load = Streams(port, bodies(kind, model, count))
        started_at = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(streams, count)):
                group.create_task(load.connection())
        elapsed_s = time.perf_counter() - started_at
        medians = [statistics.median(times) for times in (load.ttft_s, load.e2e_s)]
        print(json.dumps([elapsed_s, len(load.e2e_s), load.num_chunks, *medians]))

    asyncio.run(run())


def measure(system: System, kind: str, streams: int, count: int) -> Row:
    """One round."""
    before = system.cpu_s()
    command = [sys.executable, __file__, "--client", str(system.port), kind, system.model, str(streams), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    elapsed_s, num_requests, num_chunks, ttft_s, e2e_s = json.loads(done.stdout)
    cpu_s = system.cpu_s() - before
    return Row(
        system.name,
        kind,
        streams,
        num_requests / elapsed_s,
        num_chunks / elapsed_s,
        cpu_s * 1e3 / num_requests,
        cpu_s * 1e6 / num_chunks,
        ttft_s * 1e3,
        e2e_s * 1e3,
    )


def measure_all(make: Callable[[Path], System], points: list[tuple[str, int, int]]) -> list[Row]:
    """One round of every point, after requests that warm the system up."""
    with tempfile.TemporaryDirectory() as folder:
        system = make(Path(folder))
        try:
            for kind in KINDS:
                measure(system, kind, 16, 64)
            return [measure(system, *point) for point in points]
        finally:
            system.close()


def median_row(rounds: list[Row]) -> Row:
    return sorted(rounds, key=lambda row: row.cpu_ms_per_request)[len(rounds) // 2]


def print_table(rows: list[Row]) -> None:
    print(f"{'system':<7} {'prompts':<10} {'streams':>7} {'req/s':>8} {'chunks/s':>9} {'CPU ms/req':>11}"
          f" {'CPU µs/chunk':>13} {'TTFT p50 ms':>12} {'E2E p50 ms':>11}")  # fmt: skip
    for row in rows:
        print(f"{row.system:<7} {row.prompts:<10} {row.streams:>7} {row.requests_per_s:>8.1f} {row.chunks_per_s:>9.0f}"
              f" {row.cpu_ms_per_request:>11.2f} {row.cpu_us_per_chunk:>13.1f} {row.ttft_p50_ms:>12.1f}"
              f" {row.e2e_p50_ms:>11.1f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--streams", default="1,64,512", help="concurrencies, by commas")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--dynamo-python", type=Path, metavar="PYTHON", help="of an environment that holds Dynamo")
    parser.add_argument("--client", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.client:
        port, kind, model, streams, count = asked.client
        client(int(port), kind, model, int(streams), int(count))
        return
    systems: list[Callable[[Path], System]] = [lambda folder: Baton(folder, asked.model)]
    if asked.dynamo_python:
        enter_own_network()
        model_folder = fetch(asked.model)
        systems.append(lambda folder: Dynamo(folder, model_folder, asked.dynamo_python))
    concurrencies = [int(streams) for streams in asked.streams.split(",")]
    counts = [64 if streams == 1 else max(streams, asked.requests) for streams in concurrencies]
    points = [(kind, *point) for kind in KINDS for point in zip(concurrencies, counts, strict=True)]
    rounds = [[measure_all(make, points) for make in systems] for _ in range(NUM_ROUNDS)]
    rows = [
        median_row([each[system][point] for each in rounds])
        for point in range(len(points))
        for system in range(len(systems))
    ]
    print_table(rows)
    if asked.json:
        asked.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
